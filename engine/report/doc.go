// Package report shows a run to people: a display while it works (Terminal), a table at
// its end (WriteTable, WriteComparison) and one self-contained page afterwards
// (WriteHTML), and many runs side by side (WriteStudy). Read fills a Run from an archive.
// Package live serves the same page while a run works, with the pages behind it
// (WriteRollouts, WriteRollout, WriteHarness).
//
// It is for reading only: it computes nothing that a run depends on, opens no file and
// knows no other part of the engine than its nouns and its journal.
//
// Model output, task texts and harness sources are untrusted. Everywhere they pass
// visible (no control characters, no bidirectional overrides, no invalid UTF-8), in the
// page also html/template's contextual escaping; the page has no script, and its
// content security policy forbids every request. What is long is cut, with a mark.
//
// Not covered: energy by phase.
package report
