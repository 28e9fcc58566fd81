#!/bin/sh
# Runs the tests of this package with the C side under gcc's sanitizers: addresses and undefined
# behaviour, then data races of the worker pool. Some minutes of processor time; arguments go to
# go test, for example: sanitize.sh -run Paged
set -eu
cd "$(dirname "$0")"
echo "addresses, undefined behaviour"
ASAN_OPTIONS=allocator_may_return_null=1 \
	CGO_CFLAGS="-g -fsanitize=undefined -fno-sanitize-recover=undefined" CGO_LDFLAGS="-fsanitize=undefined" \
	go test -asan "$@" .
echo "data races"
CGO_CFLAGS="-g -fsanitize=thread" CGO_LDFLAGS="-fsanitize=thread" go test "$@" .
