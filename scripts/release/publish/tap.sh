#!/bin/sh
# Puts the formula of a release into a Homebrew tap, as one commit:
#   scripts/release/publish/tap.sh release/metalbridge.rb https://github.com/OWNER/homebrew-tap.git
# git must be able to push there (gh auth setup-git). Nothing is pushed if the tap has this formula already.
set -eu

[ $# -eq 2 ] || { echo "usage: $0 FORMULA REPOSITORY" >&2; exit 1; }
formula=$1 repository=$2
version=$(sed -n 's/^  version "\(.*\)"$/\1/p' "$formula")
[ -n "$version" ] || { echo "tap.sh: $formula has no version" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone --quiet --depth 1 "$repository" "$work/tap"
mkdir -p "$work/tap/Formula"
cp "$formula" "$work/tap/Formula/metalbridge.rb"
cd "$work/tap"
git add Formula/metalbridge.rb
if git diff --cached --quiet; then
  echo "the tap has metalbridge $version"
  exit 0
fi
git -c user.name="metalbridge release" -c user.email="release@users.noreply.github.com" commit --quiet --message "metalbridge $version"
git push --quiet origin HEAD
echo "metalbridge $version is in the tap"
