# Writes KIND and a sum of all headers of the library into OUT.
file(GLOB_RECURSE headers ${CMAKE_CURRENT_LIST_DIR}/../lockstep/*.h)
set(sums "")
foreach(header ${headers})
  file(SHA256 ${header} sum)
  string(APPEND sums "${sum}")
endforeach()
string(SHA256 sum "${sums}")
file(WRITE ${OUT} "${KIND} ${sum}\n")
