package archive_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/seed-7c27e6b8/whale/engine"
	"github.com/seed-7c27e6b8/whale/engine/archive"
	"github.com/seed-7c27e6b8/whale/engine/enginetest"
)

func TestSmoke(t *testing.T) {
	dir := t.TempDir() + "/run"
	a, err := archive.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := engine.Run(t.Context(), enginetest.Config(), enginetest.Parts(a))
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.MarshalIndent(s, "", " ")
	t.Logf("%s", text)
	for _, p := range func() []engine.CurvePoint { st := engine.Fold(a.Records()); return st.Curve() }() {
		t.Logf("%+v %+v", p.Point, p.Test)
	}
	a.Close()
	b, _ := os.ReadFile(dir + "/run.yaml")
	t.Logf("%s", b)
}
