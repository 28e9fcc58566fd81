package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-7c27e6b8/whale/sandbox"
)

// TestBench: copies of the seed load and run through the script; every stage is counted,
// and what is refused is no error.
func TestBench(t *testing.T) {
	c := &benchCommand{Domain: "lookup", Model: "script", Copies: 2, Rollouts: 3, Parallel: 2, Engine: sandbox.Interpret, Workers: 1, Seed: 1}
	hosts, closeHosts, err := c.hosts(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	box, err := sandbox.Open(context.Background(), sandbox.Config{Workers: 1, Engine: c.Engine})
	if err != nil {
		t.Fatal(err)
	}
	b := measurement{command: c, hosts: hosts, box: box}
	candidates, err := c.candidates(hosts.domain)
	if err != nil {
		t.Fatal(err)
	}
	bad := candidates[0]
	bad.ID, bad.Source = "hbad", "package harness"
	if err := b.all(context.Background(), append(candidates, bad)); err != nil {
		t.Fatal(err)
	}
	r := b.result
	if r.Candidates != 3 || r.Refused != 1 || r.Rollouts != 6 || r.Failed != 0 || r.PerRollout.Guest <= 0 || r.PerRollout.Fork <= 0 || r.PerCandidate.Load <= 0 {
		t.Errorf("%+v", r)
	}
	if err := box.Close(); err != nil {
		t.Error(err)
	}
	if err := closeHosts(); err != nil {
		t.Error(err)
	}
}

// TestBenchCandidates: a folder's sources are candidates, its tests are not.
func TestBenchCandidates(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"a.go", "b_test.go", "c.txt"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := &benchCommand{Harnesses: folder}
	if list, err := c.candidates(nil); err != nil || len(list) != 1 || list[0].Source != "a.go" {
		t.Errorf("%v, %v", list, err)
	}
	c.Harnesses = t.TempDir()
	if _, err := c.candidates(nil); err == nil {
		t.Error("an empty folder")
	}
}

func TestMain(m *testing.M) {
	sandbox.WorkerMain()
	if os.Getenv(asCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}
