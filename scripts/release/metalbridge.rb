# Written by npm run release.
class Metalbridge < Formula
  desc "Kubernetes inference on Macs: native engines on Metal behind cluster Services"
  homepage "@URL@"
  license "Apache-2.0"
  version "@VERSION@"

  on_macos do
    depends_on arch: :arm64
    url "@BASE_URL@/metalbridge-@VERSION@-darwin-arm64.tar.gz"
    sha256 "@SHA256 darwin-arm64@"
  end

  on_linux do
    on_arm do
      url "@BASE_URL@/metalbridge-@VERSION@-linux-arm64.tar.gz"
      sha256 "@SHA256 linux-arm64@"
    end
    on_intel do
      url "@BASE_URL@/metalbridge-@VERSION@-linux-x64.tar.gz"
      sha256 "@SHA256 linux-x64@"
    end
  end

  def install
    libexec.install Dir["*"]
    bin.install_symlink libexec/"bin/metalbridge"
    bin.install_symlink libexec/"bin/metalbridge" => "kubectl-metalbridge"
    bin.install_symlink libexec/"bin/llmfit-cluster-fit"
  end

  # The service is not brew's: its plist, account and versions outlive a brew upgrade.
  def caveats
    "Install the agent as a service with: sudo metalbridge install"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/metalbridge --version")
  end
end
