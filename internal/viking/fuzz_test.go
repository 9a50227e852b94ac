package viking

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var fuzzSeeds = []string{
	"", "viking://", "viking://resources/a", " viking://resources//a/ ", "viking://~/skills/x/SKILL.md", "viking://session/1",
	"viking://user/ann/memories/facts", "viking://user/bob", "viking://agent/skills/wiki", "viking://resources/%2e%2e/a",
	"viking://resources/..", "viking://resources/{calendar:today}", "viking://resources/{calendar:{calendar:year}}",
	"viking://resources/a /", "viking://resources/\u00a0", "viking://user/ann/peers/bob/resources/x", "viking://resources/\xff",
	"viking://resources/%25%32%65", "../a", "a/b.md", "C:/x", ".abstract.md", "a\\b", "a%252fb",
}

// checkSound fails when u is not a URI that this package may hand out.
func checkSound(t *testing.T, u URI) {
	t.Helper()
	if len(u.String()) > MaxURIBytes || len(u.Segments()) > MaxDepth {
		t.Errorf("%q is out of bounds", u)
	}
	if strings.ContainsAny(u.String(), `?#\`) || strings.ContainsFunc(u.String(), unsafeRune) {
		t.Errorf("%q has characters that are refused", u)
	}
	for _, s := range u.Segments() {
		if s == "" || s == "." || s == ".." || len(s) > MaxSegmentBytes {
			t.Errorf("%q has the segment %q", u, s)
		}
	}
	if !u.IsRoot() && !slices.Contains([]string{ScopeAgent, ScopeResources, ScopeUser}, u.Scope()) {
		t.Errorf("%q has the scope %q", u, u.Scope())
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range fuzzSeeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, fault := Parse("to", raw)
		if fault != nil {
			if fault.Code != CodeInvalidURI || strings.ContainsFunc(fault.Error(), unsafeRune) {
				t.Errorf("unfit fault %+v", fault)
			}
			return
		}
		checkSound(t, u)
		again, fault := Parse("to", u.String())
		if fault != nil || again != u {
			t.Errorf("%q parses to %q, %v", u, again, fault)
		}
		if !u.Within(u.Parent()) {
			t.Errorf("%q is not within its parent %q", u, u.Parent())
		}
	})
}

func FuzzCanonicalize(f *testing.F) {
	for _, seed := range fuzzSeeds {
		f.Add(seed, "viking://resources/w", "viking://agent/skills/x", "ann")
		f.Add("viking://resources/r", seed, "viking://agent/skills/x", "ann")
		f.Add("viking://resources/r", "viking://~/resources/w", seed, "ann")
	}
	at := time.Date(2026, time.November, 30, 1, 2, 3, 0, time.UTC)
	f.Fuzz(func(t *testing.T, from, to, skill, user string) {
		caller := Caller{User: user}
		got, faults := Canonicalize(Request{From: []string{from, from, to}, To: to, Skill: skill}, caller, at)
		if len(faults) > 0 {
			if diff := cmp.Diff(Canonical{}, got); diff != "" {
				t.Errorf("faults and an answer:\n%s", diff)
			}
			return
		}
		for _, text := range slices.Concat(got.From, []string{got.To, got.Skill}) {
			u, fault := caller.Parse("x", text)
			if fault != nil || u.String() != text {
				t.Fatalf("canonical %q parses to %q, %v", text, u, fault)
			}
			checkSound(t, u)
			if u.Scope() == ScopeUser && u.User() != user {
				t.Errorf("%q may name %q", user, u)
			}
		}
		again, faults := Canonicalize(Request(got), caller, at.AddDate(1, 1, 1))
		if diff := cmp.Diff(got, again); diff != "" || len(faults) > 0 {
			t.Errorf("canonicalizing again gives %v:\n%s", faults, diff)
		}
	})
}

func FuzzUserID(f *testing.F) {
	for _, seed := range []string{"", "ann", "a@b@c", "system:serviceaccount:ns:n", ".", "memories", "\xff"} {
		f.Add(seed, "ann")
		f.Add(seed, UserID(seed))
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		idA, idB := UserID(a), UserID(b)
		if (idA == idB) != (a == b) {
			t.Errorf("%q and %q map to %q and %q", a, b, idA, idB)
		}
		if a != "" && (!ValidID(idA) || len(idA) > MaxUserIDBytes || idA[0] == '.') {
			t.Errorf("%q maps to %q", a, idA)
		}
		if a != "" {
			if u, fault := Parse("x", "viking://user/"+idA); fault != nil || u.User() != idA {
				t.Errorf("the tree of %q is %q, %v", idA, u, fault)
			}
		}
	})
}

func FuzzCheckRelativePath(f *testing.F) {
	for _, seed := range fuzzSeeds {
		f.Add(seed)
	}
	root, fault := Parse("root", "viking://resources/r")
	if fault != nil {
		f.Fatal(fault)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if CheckRelativePath(p) != nil {
			return
		}
		for _, s := range strings.Split(p, "/") {
			if s == "" || s[0] == '.' || IsDerivedName(s) {
				t.Errorf("%q has the segment %q", p, s)
			}
		}
		u, err := root.Join(p)
		if err != nil {
			return // too long or too deep below this root
		}
		checkSound(t, u)
		if rel, ok := u.Rel(root); !ok || rel != p {
			t.Errorf("%q joined is %q, and back %q", p, u, rel)
		}
	})
}
