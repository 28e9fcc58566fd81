package searchqa

import "testing"

// A proposer sees ids; they must not say which answer is right.
func TestIDHasNoAnswer(t *testing.T) {
	var ids []string
	for _, golden := range []string{"Paris", "Lyon"} {
		q, err := newQuestion(Row{ID: "1", DataSource: "nq", Question: "Where?", GoldenAnswers: []string{golden}}, 1, "nq_test")
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, string(q.id))
	}
	if ids[0] != ids[1] {
		t.Errorf("same question, other answer: ids %v", ids)
	}
}
