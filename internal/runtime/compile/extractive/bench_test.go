package extractive

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// generated makes a corpus of n documents, always the same, of words that are spread
// over topics as real ones are.
func generated(n int) map[string]string {
	random := rand.New(rand.NewPCG(1, 2))
	word := func(topic int) string { return fmt.Sprintf("word%c%d", 'a'+topic%26, random.IntN(60)) }
	common := strings.Fields("the server a controller reads of object and writes to state when it is")
	files := make(map[string]string, n)
	for i := range n {
		var out strings.Builder
		fmt.Fprintf(&out, "# Document %d on %s\n\n", i, word(i))
		for range 5 {
			for range 5 {
				words := make([]string, 0, 14)
				for range 14 {
					if random.IntN(2) == 0 {
						words = append(words, common[random.IntN(len(common))])
					} else {
						words = append(words, word(i+random.IntN(3)))
					}
				}
				fmt.Fprintf(&out, "So %s.\n", strings.Join(words, " "))
			}
			out.WriteString("\n")
		}
		files[fmt.Sprintf("dir-%02d/doc-%04d.md", i%40, i)] = out.String()
	}
	return files
}

func BenchmarkCompile1000Files(b *testing.B) {
	sources := generated(1000)
	var size int64
	for _, content := range sources {
		size += int64(len(content))
	}
	ws := workspace(b, sources, nil)
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := New().Compile(b.Context(), ws); err != nil {
			b.Fatal(err)
		}
	}
}

func TestGeneratedCorpus(t *testing.T) {
	sources := generated(150)
	_, files := run(t, workspace(t, sources, nil))
	checkWiki(t, sources, nil, files)
	if topics := strings.Count(files["index.md"], "\n## Topic: "); topics < 5 || topics > 200 {
		t.Errorf("%d topics", topics)
	}
}
