package export

import (
	"io"

	"github.com/parquet-go/parquet-go"
)

// rowsPerGroup bounds what the writer holds in memory; readers skip by group.
const rowsPerGroup = 4096

// Parquet writes one file of zstd pages, with the three-level lists that pandas and DuckDB
// know as lists.
type Parquet struct {
	w     *parquet.GenericWriter[Row]
	group int
}

// NewParquet writes to w.
func NewParquet(w io.Writer) *Parquet {
	return &Parquet{w: parquet.NewGenericWriter[Row](w, parquet.Compression(&parquet.Zstd),
		parquet.CreatedBy("whale", "1", ""))}
}

// Write appends rows.
func (p *Parquet) Write(rows []Row) error {
	for len(rows) > 0 {
		n := min(len(rows), rowsPerGroup-p.group)
		if _, err := p.w.Write(rows[:n]); err != nil {
			return err
		}
		rows = rows[n:]
		if p.group += n; p.group == rowsPerGroup {
			p.group = 0
			if err := p.w.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close writes the rest and the footer.
func (p *Parquet) Close() error { return p.w.Close() }
