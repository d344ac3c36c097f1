# One call of a replayed command: SOCKET NAME ARGS. Perl without modules, because it starts in a tenth of Node's time, and with
# the module Socket in a third.
my $path = shift @ARGV;
# A Unix socket has the numbers 1 and 1 everywhere; before its address macOS has the length and the family in a byte each.
my $address = $^O eq "darwin" ? pack("CCa104", 106, 1, $path) : pack("Sa108", 1, $path);
socket(my $socket, 1, 1, 0) or die "socket: $!\n";
connect($socket, $address) or die "$path: $!\n";
my $call = join("\0", $>, @ARGV);
syswrite($socket, $call) == length $call or die "$path: $!\n";
shutdown($socket, 1);
local $/;
my ($code, $length, $text) = <$socket> =~ /^(\d+) (\d+)\n(.*)$/s or exit 70;
print STDOUT substr($text, 0, $length);
print STDERR substr($text, $length);
exit $code;
