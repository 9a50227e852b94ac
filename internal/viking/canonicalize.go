package viking

import (
	"fmt"
	"strings"
	"time"
)

const (
	fieldFrom  = "from"
	fieldTo    = "to"
	fieldSkill = "skill"
)

// MaxSources bounds the items of from, before duplicates are dropped.
const MaxSources = 64

// Request is the URI part of a compile request, as it was sent (B.1).
type Request struct {
	From      []string
	To, Skill string
}

// Canonical is the same in canonical text: no alias, no path variable, no
// duplicate, and the Skill's directory instead of its SKILL.md.
type Canonical struct {
	From      []string
	To, Skill string
}

// Canonicalize applies B.1, B.2 and all of section G to a request of caller, with
// path variables as they are at the given time. It returns every fault it finds,
// at most one a field, ordered from, to, skill; with any fault the Canonical is
// empty. What it returns canonicalizes to itself for the same caller.
func Canonicalize(req Request, caller Caller, at time.Time) (Canonical, []*FieldError) {
	r := reader{caller: caller, at: at}
	out := Canonical{From: r.sources(req.From), To: r.target(req.To), Skill: r.skill(req.Skill)}
	if len(r.faults) > 0 {
		return Canonical{}, r.faults
	}
	return out, nil
}

// reader collects the faults of one request.
type reader struct {
	caller Caller
	at     time.Time
	faults []*FieldError
}

func (r *reader) sources(raw []string) []string {
	switch {
	case len(raw) == 0:
		r.list("from must have at least one item")
		return nil
	case len(raw) > MaxSources:
		r.list(fmt.Sprintf("from must not have more than %d items", MaxSources))
		raw = raw[:MaxSources]
	}
	var out []string
	texts, uris := map[string]bool{}, map[URI]bool{}
	for i, item := range raw {
		text := strings.TrimRight(strings.TrimSpace(item), "/")
		if texts[text] {
			continue
		}
		texts[text] = true
		field := fmt.Sprintf("%s[%d]", fieldFrom, i)
		u, ok := r.read(field, item)
		if !ok || r.fail(r.caller.CheckSource(field, u)) || uris[u] {
			continue
		}
		uris[u] = true
		out = append(out, u.String())
	}
	return out
}

func (r *reader) target(raw string) string {
	u, ok := r.read(fieldTo, raw)
	if !ok || r.fail(r.caller.CheckTarget(fieldTo, u)) {
		return ""
	}
	return u.String()
}

func (r *reader) skill(raw string) string {
	u, ok := r.read(fieldSkill, raw)
	if !ok {
		return ""
	}
	if u.Base() == SkillFile {
		u = u.Parent()
	}
	if r.fail(r.caller.CheckSkill(fieldSkill, u)) {
		return ""
	}
	return u.String()
}

// read expands and parses one URI. Expanding never makes a text longer, so the
// length is bounded first.
func (r *reader) read(field, raw string) (URI, bool) {
	text := strings.TrimSpace(raw)
	if len(text) <= MaxURIBytes {
		expanded, err := ExpandVariables(text, r.at)
		if err != nil {
			return URI{}, !r.fail(invalidURI(field, text, "cannot be expanded: "+err.Error()))
		}
		text = expanded
	}
	u, fault := r.caller.Parse(field, text)
	return u, !r.fail(fault)
}

func (r *reader) list(message string) {
	r.fail(&FieldError{Field: fieldFrom, Code: CodeInvalidArgument, Reason: message})
}

// fail notes a fault, if there is one, and reports whether there was.
func (r *reader) fail(fault *FieldError) bool {
	if fault == nil {
		return false
	}
	r.faults = append(r.faults, fault)
	return true
}
