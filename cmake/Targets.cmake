# cgconform_folder_library(NAME DEPENDS...) makes the static library of one top-level folder from
# every .cpp below it, programs (main_*.cpp) and the folders cuda/ and no_cuda/ excepted, which
# programs choose between.
function(cgconform_folder_library name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/main_[a-z_]+\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/(.*/)?(no_)?cuda/")
  if(NOT sources)
    add_library(cgconform_${name} INTERFACE)
    target_link_libraries(cgconform_${name} INTERFACE cgconform_options ${ARGN})
    return()
  endif()
  add_library(cgconform_${name} STATIC ${sources})
  target_link_libraries(cgconform_${name} PUBLIC cgconform_options ${ARGN})
endfunction()
