#!/usr/bin/env bash
# Installs what is missing, builds the release programs, runs the smoke matrix under mpirun and says
# where the report is. Its exit code is cgconform's.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'TEXT'
usage: run_smoke.sh [--no-install] [--ranks N] [CGCONFORM OPTIONS...]
  --no-install  do not look for missing packages
  --ranks N     MPI ranks (default 4)
Everything else goes to cgconform, for example --filter EXPR or --report DIR.
TEXT
}

install=true
ranks=4
report=''
options=()
while (($# > 0)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --no-install) install=false ;;
    --ranks)
      (($# >= 2)) || die 2 "--ranks needs a number"
      ranks=$2
      shift
      ;;
    --report)
      (($# >= 2)) || die 2 "--report needs a folder"
      report=$2
      shift
      ;;
    --report=*) report=${1#--report=} ;;
    *) options+=("$1") ;;
  esac
  shift
done
[[ $ranks =~ ^[1-9][0-9]*$ ]] || die 2 "--ranks needs a number of at least 1, not '$ranks'"
report=${report:-$project_dir/cgconform-report-$(date +%Y%m%d-%H%M%S)}

if $install; then "$project_dir/scripts/install_dependencies.sh"; fi
{ configure release && build release cgconform cgconform-worker; } ||
  die 3 "the build failed; its first error stands above"

allow_small_machines
code=0
mpirun -np "$ranks" "$project_dir/build/release/bin/cgconform" --matrix smoke \
  --report "$report" "${options[@]}" || code=$?

if [[ -d $report ]]; then
  say "report: $(cd -- "$report" && pwd)"
else
  say "no report was written to $report"
fi
exit "$code"
