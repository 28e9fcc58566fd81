// Package archive keeps a run in a folder of plain files:
//
//	run.yaml              what is run: settings and hashes, with the format's version
//	journal.jsonl         a line for each finished unit; what it does not point to does not exist
//	ledger.jsonl          what each unit cost, line by line beside the journal
//	harnesses/ID/         harness.go, meta.json, score.json (latest select score)
//	trajectories/*.jsonl.zst   rollouts, a file for each unit
//	trajectories/*.tsv    the same as a list: a line for each rollout, to search in
//	weights/ID/           what the learner saved: the points of the curve and the last
//	cycles/NN/iteration-II/    for proposers: report.md and .json, results.jsonl, transcripts
//	accepted.json         which harness is in use
//	evolution.md          the search so far: every candidate, what it was for, how it did
//	proposals/            a folder for each call of a proposer that is a program or a model
//	                      (package desk): brief, transcript, what it wrote, what it spent
//	climb/                the same of a search without archive, apart from what it may not see
//	summary.json          the result
//	lock                  held by the process that works on the run
//
// Everything is published last: written under another name, synced, renamed, and only
// then does a line of the journal point to it. So after a kill at any point the folder
// is a run that ends with some finished unit, plus files nobody points to, which the
// next process removes. A write that fails (a full disk) leaves what was there.
//
// The package knows the engine's structs and bytes on a disk: no model, no sandbox, no
// schedule. It holds no reference answer, since none of these structs has one.
//
// Not covered: file systems without atomic rename, two machines on one folder.
package archive
