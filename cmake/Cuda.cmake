# The CUDA parts: found, or left out with the reason. Sets
#   CGCONFORM_CUDA_ENABLED  whether files in a folder named cuda/ are compiled
#   CGCONFORM_CUDA_VERSION  version of the toolkit compiled in, empty when left out
#   CGCONFORM_CUDA_STATUS   one line for the configure summary
# and the target cgconform_cuda: runtime, cuBLAS, NCCL and hwloc, or nothing when left out.
set(CGCONFORM_CUDA AUTO CACHE STRING "CUDA parts: AUTO (when everything is found), ON (required), OFF")
set_property(CACHE CGCONFORM_CUDA PROPERTY STRINGS AUTO ON OFF)
set(CGCONFORM_CUDA_ENABLED OFF)
set(CGCONFORM_CUDA_VERSION "")
add_library(cgconform_cuda INTERFACE)

# Names in `missing` what the CUDA parts need and this machine lacks.
function(cgconform_find_cuda missing)
  set(lacking "")
  find_package(CUDAToolkit 12.4 QUIET)
  if(NOT CUDAToolkit_FOUND)
    list(APPEND lacking "CUDA Toolkit 12.4 or newer")
  else()
    foreach(target IN ITEMS cudart_static cublasLt)
      if(NOT TARGET CUDA::${target})
        list(APPEND lacking "the toolkit's ${target} library")
      endif()
    endforeach()
  endif()
  find_path(HWLOC_INCLUDE_DIR hwloc.h)
  find_library(HWLOC_LIBRARY hwloc)
  if(NOT HWLOC_INCLUDE_DIR OR NOT HWLOC_LIBRARY)
    list(APPEND lacking "hwloc")
  endif()
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ENV NCCL_HOME
            PATH_SUFFIXES include)
  find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR} ENV NCCL_HOME PATH_SUFFIXES lib lib64)
  if(NOT NCCL_INCLUDE_DIR OR NOT NCCL_LIBRARY)
    list(APPEND lacking "NCCL")
  endif()
  list(JOIN lacking ", " lacking)
  set(${missing} "${lacking}" PARENT_SCOPE)
  set(CUDAToolkit_VERSION "${CUDAToolkit_VERSION}" PARENT_SCOPE)
endfunction()

# Reads "2.28.3" out of nccl.h.
function(cgconform_nccl_version version)
  set(parts "")
  foreach(part IN ITEMS MAJOR MINOR PATCH)
    file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h line REGEX "^#define NCCL_${part} +[0-9]+")
    string(REGEX MATCH "[0-9]+$" number "${line}")
    list(APPEND parts "${number}")
  endforeach()
  list(JOIN parts "." joined)
  set(${version} "${joined}" PARENT_SCOPE)
endfunction()

file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/workloads/*.cu
     ${PROJECT_SOURCE_DIR}/workloads/device/cuda/*.cpp)
if(CGCONFORM_CUDA STREQUAL "OFF")
  set(CGCONFORM_CUDA_STATUS "left out, CGCONFORM_CUDA=OFF")
else()
  cgconform_find_cuda(missing)
  if(NOT missing)
    cgconform_nccl_version(nccl_version)
    set(found "CUDA ${CUDAToolkit_VERSION}, NCCL ${nccl_version}")
  endif()
  if(missing AND CGCONFORM_CUDA STREQUAL "ON")
    message(FATAL_ERROR "cgconform: CGCONFORM_CUDA=ON, but this machine lacks: ${missing}. "
                        "Install it (or name its place with -DCUDAToolkit_ROOT=DIR and NCCL_HOME), "
                        "or configure with -DCGCONFORM_CUDA=OFF.")
  elseif(missing)
    set(CGCONFORM_CUDA_STATUS "left out, not found: ${missing}")
  elseif(NOT cuda_sources)
    set(CGCONFORM_CUDA_STATUS "left out, this version has no CUDA sources yet (found ${found})")
  else()
    set(CGCONFORM_CUDA_ENABLED ON)
    set(CGCONFORM_CUDA_VERSION ${CUDAToolkit_VERSION})
    set(CGCONFORM_CUDA_STATUS "compiled with ${found}")
    if(NOT CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
      set(CMAKE_CUDA_ARCHITECTURES 80 90)
    endif()
    enable_language(CUDA)
    # CMake 3.25 does not know nvcc's flag for C++20.
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    target_include_directories(cgconform_cuda SYSTEM INTERFACE ${NCCL_INCLUDE_DIR}
                               ${HWLOC_INCLUDE_DIR})
    target_compile_definitions(cgconform_cuda INTERFACE CGCONFORM_WITH_CUDA)
    target_compile_options(cgconform_cuda INTERFACE
      $<$<COMPILE_LANGUAGE:CUDA>:--extended-lambda --expt-relaxed-constexpr>)
    # The driver is looked up at run time, so that programs start where there is none.
    target_link_libraries(cgconform_cuda INTERFACE CUDA::cudart_static CUDA::cublasLt
                          ${NCCL_LIBRARY} ${HWLOC_LIBRARY} ${CMAKE_DL_LIBS})
  endif()
endif()
