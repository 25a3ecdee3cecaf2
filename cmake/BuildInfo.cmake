# cgconform_build_info: what binary this is (version, git commit, compiler, build type), declared in
# harness/build_info.hpp. The source file is written at build time and only when it changes, so a
# new commit recompiles one file.
set(build_info_source ${PROJECT_BINARY_DIR}/generated/build_info.cpp)
set(write_build_info
  ${CMAKE_COMMAND} -D SOURCE_DIR=${PROJECT_SOURCE_DIR} -D OUTPUT=${build_info_source}
  -D VERSION=${PROJECT_VERSION} -D BUILD_TYPE=${CMAKE_BUILD_TYPE}
  -D "COMPILER=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
  -D "SANITIZERS=${CGCONFORM_SANITIZE}" -D "CUDA=${CGCONFORM_CUDA_VERSION}"
  -P ${PROJECT_SOURCE_DIR}/cmake/WriteBuildInfo.cmake)

add_custom_target(cgconform_write_build_info COMMAND ${write_build_info}
                  BYPRODUCTS ${build_info_source} COMMENT "Describing this build" VERBATIM)

add_library(cgconform_build_info STATIC ${build_info_source})
target_link_libraries(cgconform_build_info PUBLIC cgconform_options)
add_dependencies(cgconform_build_info cgconform_write_build_info)
