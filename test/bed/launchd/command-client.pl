# One call of a replayed command: SOCKET NAME ARGS. Perl, because it starts in a tenth of Node's time; its bare sockets,
# because IO::Socket takes most of that.
use strict;
use warnings;
use Socket;

my $path = shift @ARGV;
socket(my $socket, PF_UNIX, SOCK_STREAM, 0) or die "socket: $!\n";
connect($socket, sockaddr_un($path)) or die "$path: $!\n";
my $call = join("\0", $>, @ARGV);
syswrite($socket, $call) == length $call or die "$path: $!\n";
shutdown($socket, 1);
local $/;
my ($code, $length, $text) = <$socket> =~ /^(\d+) (\d+)\n(.*)$/s or exit 70;
print STDOUT substr($text, 0, $length);
print STDERR substr($text, $length);
exit $code;
