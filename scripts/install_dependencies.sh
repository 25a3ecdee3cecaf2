#!/usr/bin/env bash
# Installs what cgconform is built and tested with, on Debian 12 and Ubuntu 24.04.
# Does nothing, at once, when everything is there. Needs root or sudo only to install.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<'TEXT'
usage: install_dependencies.sh [--list | --check]
  --list   print the packages, one a line
  --check  install nothing; print the packages that are missing, exit 3 when there are any
TEXT
}

packages=(
  # compiler and build
  g++ cmake ninja-build ccache mold git
  # libraries
  libopenmpi-dev openmpi-bin nlohmann-json3-dev libcli11-dev libfmt-dev libgloo-dev libpugixml-dev
  libxxhash-dev libbackward-cpp-dev libdw-dev libhwloc-dev libyaml-cpp-dev
  # tests, benchmarks and gates
  libgtest-dev libgmock-dev libbenchmark-dev libvalijson-dev clang-format-14 clang-tidy-14
)

missing_packages() {
  local installed
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true)
  local package
  for package in "${packages[@]}"; do
    grep -qxF "installed $package" <<<"$installed" || printf '%s\n' "$package"
  done
}

# The distribution's id and version, for example "debian 12".
distribution() {
  local file=${CGCONFORM_OS_RELEASE:-/etc/os-release}
  [[ -r $file ]] || return 0
  (
    # shellcheck source=/dev/null
    source "$file"
    printf '%s %s\n' "${ID:-unknown}" "${VERSION_ID:-}"
  )
}

install_packages() {
  local prefix=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      die 3 "missing: $*. Neither root nor sudo here; have root run: apt-get install --yes $*"
    prefix=(sudo)
  fi
  say "installing: $*"
  "${prefix[@]}" apt-get update ||
    say "apt-get update failed; trying with the package lists that are here" >&2
  "${prefix[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install --yes --no-install-recommends "$@" ||
    die 3 "apt-get could not install: $*. Read its message above; on Ubuntu the component" \
      "'universe' must be enabled (add-apt-repository universe)"
}

case ${1:-} in
  --list)
    printf '%s\n' "${packages[@]}"
    exit 0
    ;;
  --check | '') ;;
  -h | --help)
    usage
    exit 0
    ;;
  *)
    usage >&2
    die 2 "unknown option '$1'"
    ;;
esac

distro=$(distribution)
case $distro in
  'debian 12'* | 'ubuntu 24.04'*) ;;
  *)
    die 3 "this script installs on Debian 12 and Ubuntu 24.04, and this is '${distro:-unknown}'." \
      "Install the equivalents of these packages, then run with --no-install: ${packages[*]}"
    ;;
esac
command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
  die 3 "dpkg-query and apt-get are not here. Install: ${packages[*]}"

mapfile -t missing < <(missing_packages)
if ((${#missing[@]} == 0)); then
  say "all ${#packages[@]} packages are installed"
  exit 0
fi
if [[ ${1:-} == --check ]]; then
  printf '%s\n' "${missing[@]}"
  exit 3
fi
install_packages "${missing[@]}"
