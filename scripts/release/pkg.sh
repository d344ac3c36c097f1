#!/bin/sh
# Makes the installer package for macOS from a release archive, on a Mac with Xcode's command-line tools:
#   scripts/release/pkg.sh release/metalbridge-VERSION-darwin-arm64.tar.gz FOLDER
# Writes FOLDER/metalbridge-VERSION.pkg and its .sha256. Without these variables the package is neither signed nor notarized:
#   APPLICATION_IDENTITY   "Developer ID Application: NAME (TEAM)", in the keychain
#   INSTALLER_IDENTITY     "Developer ID Installer: NAME (TEAM)", in the keychain
#   NOTARY_KEY, NOTARY_KEY_ID, NOTARY_ISSUER   the file of an App Store Connect key, its id, and its issuer
set -eu

IDENTIFIER=dev.metalbridge.release
# Where the package puts the release; its script installs from there.
SHARE=usr/local/share/metalbridge

main() {
  [ $# -eq 2 ] || fail "usage: $0 ARCHIVE FOLDER"
  archive=$1 out=$2 name=$(basename "$1" .tar.gz)
  case $name in
    metalbridge-*-darwin-arm64) version=${name#metalbridge-} version=${version%-darwin-arm64} ;;
    *) fail "$1 is not a release archive for darwin-arm64" ;;
  esac
  check_settings
  for tool in pkgbuild productbuild; do
    command -v "$tool" >/dev/null || fail "$tool is missing: run this on a Mac with Xcode's command-line tools (xcode-select --install)"
  done
  [ -f "$archive.sha256" ] || fail "$archive.sha256 is missing: keep it beside the archive"
  expected=$(cut -d ' ' -f 1 "$archive.sha256")
  actual=$(shasum -a 256 "$archive" | cut -d ' ' -f 1)
  [ "$actual" = "$expected" ] || fail "$archive has the SHA-256 $actual, not $expected"
  mkdir -p "$out"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  release=$work/root/$SHARE
  mkdir -p "$release" "$work/scripts"
  tar -xzf "$archive" -C "$release" --strip-components 1
  [ -z "${APPLICATION_IDENTITY-}" ] || sign_programs
  package
  if [ -n "${NOTARY_KEY-}" ]; then notarize; fi
  (cd "$out" && shasum -a 256 "metalbridge-$version.pkg" >"metalbridge-$version.pkg.sha256")
  echo "$out/metalbridge-$version.pkg"
}

# Half of the secrets would make a package that Gatekeeper refuses.
check_settings() {
  identities=${APPLICATION_IDENTITY:+a}${INSTALLER_IDENTITY:+i} notary=${NOTARY_KEY:+k}${NOTARY_KEY_ID:+i}${NOTARY_ISSUER:+u}
  case $identities in "" | ai) ;; *) fail "set both APPLICATION_IDENTITY and INSTALLER_IDENTITY, or neither" ;; esac
  case $notary in "" | kiu) ;; *) fail "set all of NOTARY_KEY, NOTARY_KEY_ID and NOTARY_ISSUER, or none" ;; esac
  [ -z "$notary" ] || [ -n "$identities" ] || fail "Apple notarizes signed packages only: set APPLICATION_IDENTITY and INSTALLER_IDENTITY"
}

# Node has the signature of its makers. What node-pty brings is not signed by a Developer ID, which notarization asks for.
sign_programs() {
  codesign --verify --strict "$release/bin/node"
  for file in "$release"/node_modules/node-pty/prebuilds/darwin-arm64/*; do
    codesign --force --timestamp --options runtime --sign "$APPLICATION_IDENTITY" "$file"
  done
  # A signature changes the file, and install compares each file with its sum in release.json.
  "$release/bin/node" -e '
    const { createHash } = require("node:crypto");
    const { readFileSync, writeFileSync } = require("node:fs");
    const [folder] = process.argv.slice(1);
    const manifest = JSON.parse(readFileSync(`${folder}/release.json`, "utf8"));
    for (const name of Object.keys(manifest.files).filter((one) => one.includes("/prebuilds/")))
      manifest.files[name] = createHash("sha256").update(readFileSync(`${folder}/${name}`)).digest("hex");
    writeFileSync(`${folder}/release.json`, `${JSON.stringify(manifest, undefined, 2)}\n`);
  ' "$release"
}

package() {
  printf '#!/bin/sh\nexec /%s/bin/metalbridge install --timeout-seconds 60\n' "$SHARE" >"$work/scripts/postinstall"
  chmod 755 "$work/scripts/postinstall"
  pkgbuild --root "$work/root" --scripts "$work/scripts" --identifier "$IDENTIFIER" --version "$version" \
    --install-location / --ownership recommended "$work/component.pkg"
  # An MDM installs product archives only.
  cat >"$work/distribution.xml" <<XML
<?xml version="1.0" encoding="utf-8"?>
<installer-gui-script minSpecVersion="2">
  <title>Metalbridge $version</title>
  <options customize="never" require-scripts="true" hostArchitectures="arm64"/>
  <domains enable_anywhere="false" enable_currentUserHome="false" enable_localSystem="true"/>
  <choices-outline><line choice="default"/></choices-outline>
  <choice id="default"><pkg-ref id="$IDENTIFIER"/></choice>
  <pkg-ref id="$IDENTIFIER" version="$version">component.pkg</pkg-ref>
</installer-gui-script>
XML
  productbuild --distribution "$work/distribution.xml" --package-path "$work" "$work/product.pkg"
  if [ -n "${INSTALLER_IDENTITY-}" ]; then
    productsign --timestamp --sign "$INSTALLER_IDENTITY" "$work/product.pkg" "$out/metalbridge-$version.pkg"
    pkgutil --check-signature "$out/metalbridge-$version.pkg"
  else
    mv "$work/product.pkg" "$out/metalbridge-$version.pkg"
  fi
}

notarize() {
  xcrun notarytool submit "$out/metalbridge-$version.pkg" --key "$NOTARY_KEY" --key-id "$NOTARY_KEY_ID" \
    --issuer "$NOTARY_ISSUER" --wait --timeout 30m
  xcrun stapler staple "$out/metalbridge-$version.pkg"
  spctl --assess --type install "$out/metalbridge-$version.pkg"
}

fail() {
  echo "pkg.sh: $1" >&2
  exit 1
}

main "$@"
