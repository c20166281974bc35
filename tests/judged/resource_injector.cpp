// Makes the start of threads and allocations of memory fail. Preloaded into the lockstep tool (LD_PRELOAD) by
// test_faults.py.
//
//   LOCKSTEP_FAULT_THREAD      the thread (from 1) that is not started; 0: none
//   LOCKSTEP_FAULT_ALLOCATION  the allocation of kSmallest bytes or more (from 1) that fails; 0: none
//   LOCKSTEP_FAULT_PERMANENT   1: all after it fail too
//   LOCKSTEP_FAULT_LOG         at the end, how many threads and allocations there were
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

extern "C" {
// The C library's own, which need no look-up: that allocates.
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}

namespace {

constexpr std::size_t kSmallest = 256;

std::atomic<long> threads{0}, allocations{0};
long failing_thread = 0, failing_allocation = 0;
bool permanent = false;

long number_of(const char* name) {
  const char* const value = std::getenv(name);
  return value ? std::atol(value) : 0;
}

[[gnu::constructor]] void read_settings() {
  failing_thread = number_of("LOCKSTEP_FAULT_THREAD");
  failing_allocation = number_of("LOCKSTEP_FAULT_ALLOCATION");
  permanent = number_of("LOCKSTEP_FAULT_PERMANENT") != 0;
}

bool strikes(std::atomic<long>& calls, long failing) {
  const long number = ++calls;
  return failing > 0 && (number == failing || (number > failing && permanent));
}

bool no_memory(std::size_t size) {
  if (size < kSmallest || !strikes(allocations, failing_allocation)) return false;
  errno = ENOMEM;
  return true;
}

}  // namespace

extern "C" {

void* malloc(std::size_t size) { return no_memory(size) ? nullptr : __libc_malloc(size); }
void* calloc(std::size_t count, std::size_t size) {
  return no_memory(count * size) ? nullptr : __libc_calloc(count, size);
}
void* realloc(void* old, std::size_t size) { return no_memory(size) ? nullptr : __libc_realloc(old, size); }
int posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
  if (no_memory(size)) return ENOMEM;
  *memory = __libc_memalign(alignment, size);
  return *memory ? 0 : ENOMEM;
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  return strikes(threads, failing_thread) ? EAGAIN : create(thread, attributes, run, argument);
}

// The end of every command of the tool.
void _Exit(int status) {
  using Exit = void (*)(int);
  static const auto exit = reinterpret_cast<Exit>(dlsym(RTLD_NEXT, "_Exit"));
  const long counts[] = {threads, allocations};
  failing_thread = failing_allocation = 0;
  if (const char* const path = std::getenv("LOCKSTEP_FAULT_LOG")) {
    if (std::FILE* const log = std::fopen(path, "w")) {
      std::fprintf(log, "%ld %ld\n", counts[0], counts[1]);
      std::fclose(log);
    }
  }
  exit(status);
  __builtin_unreachable();
}
}
