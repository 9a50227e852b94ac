package contentstore

import (
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/agentruntime/operator/internal/viking"
)

// tempPrefix begins the names of half-written files. They begin with a dot, so no
// reader sees them and no writer can ask for one.
const tempPrefix = ".agentruntime-tmp-"

// Hidden reports whether a name is left out of listings and refused on write: it
// begins with a dot, or is one of OpenViking's derived files (F.10).
func Hidden(name string) bool {
	return strings.HasPrefix(name, ".") || viking.IsDerivedName(name)
}

// FoldPath returns the form under which two paths that differ only by case or by
// Unicode composition are equal.
func FoldPath(path string) string {
	return norm.NFC.String(cases.Fold().String(norm.NFC.String(path)))
}
