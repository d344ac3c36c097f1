# One call of a replayed command: SOCKET NAME ARGS. Perl, because it starts in a tenth of Node's time.
use strict;
use warnings;
use IO::Socket::UNIX;

my $path = shift @ARGV;
my $socket = IO::Socket::UNIX->new(Peer => $path) or die "$path: $!\n";
print $socket join("\0", $>, @ARGV);
$socket->flush;
$socket->shutdown(1);
local $/;
my ($code, $length, $text) = <$socket> =~ /^(\d+) (\d+)\n(.*)$/s or exit 70;
print STDOUT substr($text, 0, $length);
print STDERR substr($text, $length);
exit $code;
