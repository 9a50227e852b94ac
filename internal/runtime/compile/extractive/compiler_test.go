package extractive

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// corpus reads the sample corpus.
func corpus(tb testing.TB) map[string]string {
	tb.Helper()
	dir := filepath.Join("..", "..", "..", "..", "config", "samples", "corpus")
	entries, err := os.ReadDir(dir)
	if err != nil {
		tb.Fatal(err)
	}
	files := map[string]string{}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			tb.Fatal(err)
		}
		files[entry.Name()] = string(content)
	}
	return files
}

func TestSampleCorpus(t *testing.T) {
	sources := corpus(t)
	bundle, files := run(t, workspace(t, sources, nil))
	checkWiki(t, sources, nil, files)
	if len(files) != len(sources)+1 {
		t.Errorf("%d files for %d sources", len(files), len(sources))
	}
	if bundle.LinkCount < 2*len(sources) {
		t.Errorf("only %d links", bundle.LinkCount)
	}
	if len(bundle.Warnings) != 1 || bundle.Warnings[0] != WarnNoModel {
		t.Errorf("warnings %q", bundle.Warnings)
	}
	for name, content := range files {
		if strings.HasPrefix(name, pageDir) && !strings.Contains(content, "\n- ") {
			t.Errorf("%s quotes nothing", name)
		}
	}
}

func TestKeyTermsOfTheSampleCorpusAppear(t *testing.T) {
	list, err := os.ReadFile("testdata/key_terms.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, files := run(t, workspace(t, corpus(t), nil))
	var all strings.Builder
	for _, content := range files {
		all.WriteString(strings.ToLower(strings.Join(strings.Fields(content), " ")))
	}
	var missing []string
	terms := 0
	for line := range strings.Lines(string(list)) {
		term := strings.ToLower(strings.TrimSpace(line))
		if term == "" || strings.HasPrefix(term, "#") {
			continue
		}
		if terms++; !strings.Contains(all.String(), term) {
			missing = append(missing, term)
		}
	}
	const want = 0.8
	if got := float64(terms-len(missing)) / float64(terms); got < want {
		t.Errorf("%.0f %% of the key terms appear, want %.0f %%; missing are %q", 100*got, 100*want, missing)
	}
}
