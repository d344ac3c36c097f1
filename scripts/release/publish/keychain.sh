#!/bin/sh
# Imports the two Developer ID certificates into a keychain of their own, which goes with the machine; for the release workflow:
#   CERTIFICATES_P12 (base64) and CERTIFICATES_PASSWORD are the secrets; NOTARY_KEY_P8 (text) is written to the file NOTARY_KEY.
set -eu
umask 077
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
keychain=$HOME/Library/Keychains/metalbridge-release.keychain-db
password=$(openssl rand -hex 24)
printf '%s' "$CERTIFICATES_P12" | base64 --decode >"$folder/certificates.p12"
security create-keychain -p "$password" "$keychain"
security set-keychain-settings -lut 7200 "$keychain"
security unlock-keychain -p "$password" "$keychain"
security import "$folder/certificates.p12" -k "$keychain" -P "$CERTIFICATES_PASSWORD" -T /usr/bin/codesign -T /usr/bin/productsign
security set-key-partition-list -S apple-tool:,apple: -s -k "$password" "$keychain" >/dev/null
security list-keychains -d user -s "$keychain" login.keychain-db
if [ -n "${NOTARY_KEY_P8-}" ]; then printf '%s\n' "$NOTARY_KEY_P8" >"$NOTARY_KEY"; fi
