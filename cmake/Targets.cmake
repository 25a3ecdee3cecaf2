# cgconform_folder_library(NAME DEPENDS...) makes the static library of one top-level folder from
# every .cpp below it, programs (main_*.cpp) excepted. Files in a folder named cuda/ belong to it
# only where the CUDA parts are compiled.
function(cgconform_folder_library name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp
       ${CMAKE_CURRENT_SOURCE_DIR}/*.cu)
  list(FILTER sources EXCLUDE REGEX "/main_[a-z_]+\\.cpp$")
  if(NOT CGCONFORM_CUDA_ENABLED)
    list(FILTER sources EXCLUDE REGEX "/cuda/|\\.cu$")
  endif()
  if(NOT sources)
    add_library(cgconform_${name} INTERFACE)
    target_link_libraries(cgconform_${name} INTERFACE cgconform_options ${ARGN})
    return()
  endif()
  add_library(cgconform_${name} STATIC ${sources})
  target_link_libraries(cgconform_${name} PUBLIC cgconform_options ${ARGN})
endfunction()
