# Every third-party library, found once. Each is packaged by Debian 12 and Ubuntu 24.04;
# scripts/install_dependencies.sh installs them.
find_package(Threads REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(pugixml REQUIRED)
find_package(MPI REQUIRED COMPONENTS CXX)

find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
find_library(XXHASH_LIBRARY xxhash REQUIRED)
add_library(cgconform_xxhash INTERFACE)
target_include_directories(cgconform_xxhash SYSTEM INTERFACE ${XXHASH_INCLUDE_DIR})
target_link_libraries(cgconform_xxhash INTERFACE ${XXHASH_LIBRARY})

find_path(GLOO_INCLUDE_DIR gloo/context.h REQUIRED)
find_library(GLOO_LIBRARY gloo REQUIRED)
add_library(cgconform_gloo INTERFACE)
target_include_directories(cgconform_gloo SYSTEM INTERFACE ${GLOO_INCLUDE_DIR})
target_link_libraries(cgconform_gloo INTERFACE ${GLOO_LIBRARY} Threads::Threads)

# libdw names the functions of a dead worker's stack.
find_path(DW_INCLUDE_DIR elfutils/libdwfl.h REQUIRED)
find_library(DW_LIBRARY dw REQUIRED)
add_library(cgconform_dw INTERFACE)
target_include_directories(cgconform_dw SYSTEM INTERFACE ${DW_INCLUDE_DIR})
target_link_libraries(cgconform_dw INTERFACE ${DW_LIBRARY})
