package report

import (
	"bytes"
	"flag"
	"os"
	"testing"
)

var pageFile = flag.String("page", "", "write the page of the made-up run to this file, to look at it")

func TestPageIsWritten(t *testing.T) {
	var b bytes.Buffer
	if err := WriteHTML(&b, sampleRun()); err != nil {
		t.Fatal(err)
	}
	if *pageFile != "" {
		if err := os.WriteFile(*pageFile, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
