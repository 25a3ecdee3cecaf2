#!/usr/bin/env bash
# Makes a relocatable folder: the programs of a build and the libraries that a GPU node may lack.
# It runs on a node without a compiler.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'TEXT'
usage: bundle.sh [--build DIR] [--gpu-tests] [--with-cuda] FOLDER
  --build DIR  the build to take (default build/release); it must be built
  --gpu-tests  also the tests that need a GPU
  --with-cuda  also cuBLAS and NCCL (more than 500 MiB), for nodes that have the driver alone
FOLDER must not exist. On the node, with its own Open MPI and, without --with-cuda, its own CUDA
libraries: mpirun -np N FOLDER/bin/cgconform
TEXT
}

build=$project_dir/build/release
gpu_tests=false
with_cuda=false
folder=''
while (($# > 0)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --build)
      (($# >= 2)) || die 2 "--build needs a folder"
      build=$2
      shift
      ;;
    --gpu-tests) gpu_tests=true ;;
    --with-cuda) with_cuda=true ;;
    -*)
      usage >&2
      die 2 "unknown option '$1'"
      ;;
    *)
      [[ -z $folder ]] || die 2 "one folder, not two: '$folder' and '$1'"
      folder=$1
      ;;
  esac
  shift
done
[[ -n $folder ]] || {
  usage >&2
  die 2 "the folder to make is missing"
}
[[ ! -e $folder ]] || die 2 "$folder exists already; name a new folder, or remove it"
[[ -x $build/bin/cgconform && -x $build/bin/cgconform-worker ]] ||
  die 3 "$build holds no built programs; build it first: cmake --build $build"

# The names of the libraries that a program or library needs, its own needs included.
needs() { ldd "$1" 2>/dev/null | awk '$2 == "=>" { print $1 }'; }
path_of() { ldd "$1" 2>/dev/null | awk -v name="$2" '$1 == name && $2 == "=>" { print $3 }'; }

# The C and C++ run times belong to the node. So does its MPI with all that it and its plugins load:
# the launcher there and the library have to be of one installation, and a second copy of a network
# library in the same process breaks it. The driver always is the node's.
left_out='^(linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|mpi|mpi_cxx|cuda|nvidia-ml|ibverbs|rdmacm'
left_out+='|nl-[^.]*|nl-route-[^.]*|udev|z|event[^.]*|pmix|hwloc|ltdl|uc[pstm]|psm[^.]*|fabric|systemd|cap))[.-]'
cuda='^lib(cublas|cublasLt|cudart|nccl)\.'
declare -A of_mpi=()
while read -r library; do
  [[ $library == libmpi.* ]] || continue
  while read -r name; do of_mpi[$name]=1; done < <(needs "$(path_of "$build/bin/cgconform" "$library")")
done < <(needs "$build/bin/cgconform")

say "installing the programs"
cmake --install "$build" --prefix "$folder" --strip >/dev/null
programs=("$folder/bin/cgconform" "$folder/bin/cgconform-worker")
built=("$build/bin/cgconform" "$build/bin/cgconform-worker")
if $gpu_tests; then
  [[ -x $build/tests/gpu_tests ]] || die 3 "$build holds no gpu_tests; build that target first"
  cmake --install "$build" --prefix "$folder" --strip --component gpu_tests >/dev/null
  programs+=("$folder/bin/gpu_tests")
  built+=("$build/tests/gpu_tests")
fi

mkdir -p "$folder/lib"
for program in "${built[@]}"; do
  while read -r library; do
    [[ ! $library =~ $left_out && -z ${of_mpi[$library]:-} && ! -e $folder/lib/$library ]] || continue
    [[ ! $library =~ $cuda ]] || $with_cuda || continue
    found=$(path_of "$program" "$library")
    [[ -f $found ]] || die 3 "$library, which $program needs, is not on this machine"
    install -m 644 "$(readlink -f "$found")" "$folder/lib/$library"
    strip --strip-unneeded "$folder/lib/$library" 2>/dev/null || true
  done < <(needs "$program")
done

for program in "${programs[@]}"; do
  # RPATH, not RUNPATH, so that the libraries' own needs are found in the bundle too.
  # shellcheck disable=SC2016 # the loader replaces $ORIGIN
  readelf -d "$program" | grep -q 'RPATH.*\$ORIGIN/../lib' ||
    die 3 "$program does not look for its libraries beside itself; configure the build anew"
done
say "$folder: $(du -sh "$folder" | cut -f1), $(find "$folder/lib" -type f | wc -l) libraries"
