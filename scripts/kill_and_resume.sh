#!/usr/bin/env bash
# Kills runs at random moments (a worker, a supervisor, mpirun, everything at once), resumes each, and
# demands the verdicts of an unbroken run. Prints how many kills it took and of what.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'TEXT'
usage: kill_and_resume.sh [--kills N] [--preset NAME] [--no-build]
  --kills N      kills in all (default 100)
  --preset NAME  build to use (default release)
  --no-build     take the programs as they are
TEXT
}

kills=100
preset=release
build=true
while (($# > 0)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --no-build) build=false ;;
    --kills | --preset)
      (($# >= 2)) || die 2 "$1 needs a value"
      if [[ $1 == --kills ]]; then kills=$2; else preset=$2; fi
      shift
      ;;
    *) die 2 "unknown option '$1'; see --help" ;;
  esac
  shift
done
[[ $kills =~ ^[1-9][0-9]*$ ]] || die 2 "--kills needs a number of at least 1, not '$kills'"

if $build; then
  { configure "$preset" && build "$preset" cgconform cgconform-worker mpi_tests; } ||
    die 3 "the build failed; its first error stands above"
fi
program=$(find "$project_dir/build/$preset" -name mpi_tests -type f -perm -u+x -print -quit)
[[ -n $program ]] || die 3 "no mpi_tests in build/$preset; leave --no-build out"
allow_small_machines
CGTEST_KILLS=$kills exec "$program" --gtest_filter='ResumeTest.GivesTheVerdicts*'
