// Starts commands of the lockstep tool from a process that has loaded LibTorch already: 0.3 s of CPU less for each
// command.
//
// Preloaded into build/bin/lockstep (LD_PRELOAD), it waits in place of main() for requests on the socket that
// LOCKSTEP_FORK_SERVER numbers, and forks for each: the child runs the tool's own main(). A request is a packet
// "<folder>\0<argument>\0..." with two descriptors, the child's stdout and stderr. The server sends the packet "0" once
// it is ready, and for each request two: the child's process id and its wait status. It ends when the other side closes
// the socket. See fork_server.py.
#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

namespace {

using Main = int (*)(int, char**, char**);
using SetThreads = void (*)(int);

Main tool_main = nullptr;
SetThreads set_library_threads = nullptr;
int server_socket = -1;

[[noreturn]] void fail(const char* problem) {
  std::fprintf(stderr, "fork server: %s\n", problem);
  _exit(1);
}

struct Request {
  std::string folder;
  std::vector<std::string> arguments;
  std::array<int, 2> outputs{-1, -1};
};

// False at the end of the connection.
bool receive(Request& request) {
  std::vector<char> text(1 << 20);
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
  iovec part{text.data(), text.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t size = recvmsg(server_socket, &message, MSG_CMSG_CLOEXEC);
  if (size <= 0) return false;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) fail("a request without descriptors");
  std::memcpy(request.outputs.data(), CMSG_DATA(header), sizeof(request.outputs));
  const char* at = text.data();
  const char* const end = at + size;
  request.folder = at;
  for (at += request.folder.size() + 1; at < end; at += request.arguments.back().size() + 1) {
    request.arguments.emplace_back(at);
  }
  return true;
}

void answer(long number) {
  const std::string text = std::to_string(number);
  if (send(server_socket, text.data(), text.size(), MSG_NOSIGNAL) < 0) _exit(0);
}

// In the child: the rest of the process is that of a command which was started by itself.
int run(Request& request, char* name, char** environment) {
  close(server_socket);
  if (chdir(request.folder.c_str()) != 0) fail("the folder of a request cannot be entered");
  for (int i = 0; i < 2; ++i) dup2(request.outputs[static_cast<std::size_t>(i)], i + 1);
  std::vector<char*> arguments{name};
  for (std::string& argument : request.arguments) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  // After a fork LibTorch replaces its thread pool in the first call that needs the pool, without a lock: replicas that
  // start at once would find none ("Invalid thread pool!"). So it is replaced here, while the process has one thread;
  // one is also what lockstep sets when it is loaded.
  set_library_threads(1);
  return tool_main(static_cast<int>(arguments.size()) - 1, arguments.data(), environment);
}

int serve(int, char** given, char** environment) {
  if (dlopen(std::getenv("LOCKSTEP_FORK_SERVER_ENGINE"), RTLD_LAZY | RTLD_GLOBAL) == nullptr) fail(dlerror());
  set_library_threads = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "_ZN2at15set_num_threadsEi"));
  if (set_library_threads == nullptr) fail("LibTorch has no at::set_num_threads(int)");
  for (const char* name : {"LD_PRELOAD", "LOCKSTEP_FORK_SERVER", "LOCKSTEP_FORK_SERVER_ENGINE"}) unsetenv(name);
  const std::filesystem::directory_iterator threads("/proc/self/task");
  if (std::distance(begin(threads), end(threads)) != 1)
    fail("loading the engine started threads, which a fork would lose");
  answer(0);
  for (;;) {
    Request request;
    if (!receive(request)) _exit(0);
    const pid_t child = fork();
    if (child < 0) fail("no process could be started");
    if (child == 0) return run(request, given[0], environment);
    for (const int output : request.outputs) close(output);
    answer(child);
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
    }
    answer(status);
  }
}

}  // namespace

// The C library's entry, which receives the program's main().
extern "C" int __libc_start_main(Main main, int argc, char** argv, void (*init)(), void (*fini)(), void (*rtld_fini)(),
                                 void* stack_end) {
  const auto original = reinterpret_cast<decltype(&__libc_start_main)>(dlsym(RTLD_NEXT, "__libc_start_main"));
  const char* const number = std::getenv("LOCKSTEP_FORK_SERVER");
  if (number == nullptr) return original(main, argc, argv, init, fini, rtld_fini, stack_end);
  tool_main = main;
  server_socket = std::atoi(number);
  return original(serve, argc, argv, init, fini, rtld_fini, stack_end);
}
