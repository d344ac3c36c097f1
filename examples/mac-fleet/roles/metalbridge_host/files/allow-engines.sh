#!/bin/sh
# Allows the engine in use through the application firewall. Run it as root after each change of the engine: the firewall
# identifies a program by its path and its signature, and each version has its own.
set -eu
firewall=/usr/libexec/ApplicationFirewall/socketfilterfw
for link in /usr/local/lib/metalbridge/engines/*/current/llama-server; do
  [ -e "$link" ] || continue
  program=$(realpath "$link")
  if "$firewall" --getappblocked "$program" | grep -qi permitted; then continue; fi
  "$firewall" --add "$program"
  "$firewall" --unblockapp "$program"
  echo "allowed $program"
done
