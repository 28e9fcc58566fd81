#!/bin/sh
# Runs the tests of this package with the C side under gcc's sanitizers: addresses, undefined
# behaviour, data races of the worker pool. Takes some minutes.
set -eu
cd "$(dirname "$0")"
echo "addresses"
ASAN_OPTIONS=allocator_may_return_null=1 go test -asan "$@" .
echo "undefined behaviour"
CGO_CFLAGS="-g -fsanitize=undefined -fno-sanitize-recover=undefined" CGO_LDFLAGS="-fsanitize=undefined" go test "$@" .
echo "data races"
CGO_CFLAGS="-g -fsanitize=thread" CGO_LDFLAGS="-fsanitize=thread" go test "$@" .
