// Package corpus holds the contract suite of package sandbox as tests: programs that are
// run by Go's compiler, by the interpreter before and after lowering, and by the compile
// engine in the sandbox. All say the same, or the vet refuses the program; a silent
// difference fails the suite.
//
//	program_test.go      programs of text files, and their variants: body in a loop, in a closure
//	random_test.go       programs by a generator
//	native_test.go       what Go's compiler makes of them: many programs per binary
//	interpreted_test.go  what the interpreter makes of them, in a process of its own
//	batch_test.go        what the compile engine makes of them: many programs per candidate,
//	                     which share its image; each runs in a fork of its own
//	corpus_test.go       the comparison and its table of numbers
//
// Programs come from testdata, and from the folder spec/interpreter of the shared folder
// when there is one. `go test` takes a sample; WHALE_CORPUS=full takes all;
// WHALE_SEEDS=80000,81000 runs programs by the generator for other seeds.
package corpus
