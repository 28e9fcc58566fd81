// Package report shows a run to people: a progress display while it works (Progress), a
// table at its end (WriteTable) and one self-contained page afterwards (WriteHTML).
//
// It is for reading only: it computes nothing that a run depends on, opens no file and
// knows no other part of the engine than its nouns. Whoever calls it fills the structs
// of run.go from an archive.
//
// Model output, task texts and harness sources are untrusted. In the page they pass
// visible (no control characters, no bidirectional overrides, no invalid UTF-8) and
// then html/template's contextual escaping; the page has no script, and its content
// security policy forbids every request.
//
// Not covered: comparing several runs on one page, a live page while a run works.
package report
