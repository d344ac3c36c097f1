#!/bin/sh
# Installs Metalbridge @VERSION@ as a service: downloads the archive for this machine, checks its SHA-256, and runs
# `metalbridge install` from it. Arguments are passed on. Run it with sudo, except with --scope user.
set -eu

main() {
  base=${METALBRIDGE_BASE_URL:-@BASE_URL@}
  case "$(uname -s)-$(uname -m)" in
    Darwin-arm64) platform=darwin-arm64 ;;
    Linux-x86_64) platform=linux-x64 ;;
    Linux-aarch64) platform=linux-arm64 ;;
    *) fail "there is no release for $(uname -s) on $(uname -m)" ;;
  esac
  archive=metalbridge-@VERSION@-$platform.tar.gz
  expected=$(sum_for "$archive")
  [ -n "$expected" ] || fail "this script has no checksum for $archive"
  [ -n "$base" ] || fail "set METALBRIDGE_BASE_URL to where the archives are"
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  curl -fsSL --proto '=https,file' -o "$folder/$archive" "$base/$archive" || fail "cannot download $base/$archive"
  actual=$(sum_of "$folder/$archive")
  [ "$actual" = "$expected" ] || fail "$archive has the SHA-256 $actual, not $expected"
  tar -xzf "$folder/$archive" -C "$folder"
  "$folder/metalbridge-@VERSION@-$platform/bin/metalbridge" install "$@"
}

sum_for() {
  while read -r sum name; do
    if [ "$name" = "$1" ]; then echo "$sum"; fi
  done <<'SUMS'
@SUMS@
SUMS
}

sum_of() {
  if command -v sha256sum >/dev/null; then sha256sum "$1" | cut -d ' ' -f 1; else shasum -a 256 "$1" | cut -d ' ' -f 1; fi
}

fail() {
  echo "install.sh: $1" >&2
  exit 1
}

# Last: a script that was cut off on its way does nothing.
main "$@"
