package viking

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	yes    = ""
	denied = "PERMISSION_DENIED Access denied: "
	badURI = "INVALID_URI Invalid URI: "

	skillShape     = "INVALID_ARGUMENT " + msgSkillShape
	skillTarget    = "INVALID_ARGUMENT " + msgSkillTarget
	memoryTarget   = "INVALID_ARGUMENT " + msgMemoryTarget
	resourceTarget = "INVALID_ARGUMENT " + msgResourceTarget
	otherTarget    = "INVALID_ARGUMENT " + msgOtherTarget
	derivedTarget  = "INVALID_ARGUMENT " + msgDerivedTarget
	sourceDir      = "INVALID_ARGUMENT " + msgSourceDir
)

// The rows of G.4 with those of B.2, as ann sees them. Each answer is the start
// of "CODE message", or yes.
func TestWhoMayBeWhat(t *testing.T) {
	cases := []struct{ uri, from, to, skill string }{
		{"viking://", sourceDir, otherTarget, skillShape},
		{"viking://resources", yes, resourceTarget, skillShape},
		{"viking://resources/a", yes, yes, skillShape},
		{"viking://resources/a/b/c", yes, yes, skillShape},
		{"viking://resources/skills/x", yes, yes, skillShape},
		{"viking://resources/a/.abstract.md", yes, derivedTarget, skillShape},
		{"viking://resources/a/.Overview.md", yes, derivedTarget, skillShape},
		{"viking://resources/.relations.json/a", yes, derivedTarget, skillShape},
		{"viking://resources/a/.source.json", yes, derivedTarget, skillShape},
		{"viking://user", denied, denied, denied},
		{"viking://user/ann", yes, resourceTarget, skillShape},
		{"viking://~", yes, resourceTarget, skillShape},
		{"viking://user/ann/resources", yes, resourceTarget, skillShape},
		{"viking://user/ann/resources/x", yes, yes, skillShape},
		{"viking://user/ann/memories", yes, memoryTarget, skillShape},
		{"viking://user/ann/memories/facts", yes, yes, skillShape},
		{"viking://user/ann/memories/facts/x", yes, yes, skillShape},
		{"viking://user/ann/memories/.abstract.md", yes, derivedTarget, skillShape},
		{"viking://user/ann/skills", yes, yes, skillShape},
		{"viking://~/skills", yes, yes, skillShape},
		{"viking://agent/skills", yes, yes, skillShape},
		{"viking://user/ann/skills/wiki", yes, skillTarget, yes},
		{"viking://agent/skills/wiki", yes, skillTarget, yes},
		{"viking://user/ann/skills/wiki/SKILL.md", yes, skillTarget, yes},
		{"viking://agent/skills/wiki/SKILL.md", yes, skillTarget, yes},
		{"viking://agent/skills/wiki/skill.md", yes, skillTarget, skillShape},
		{"viking://agent/skills/wiki/references", yes, skillTarget, skillShape},
		{"viking://agent/skills/wiki/a/SKILL.md", yes, skillTarget, skillShape},
		{"viking://agent/skills/SKILL.md", yes, skillTarget, skillShape},
		{"viking://agent/skills/SKILL.md/SKILL.md", yes, skillTarget, skillShape},
		{"viking://agent/skills/.abstract.md", yes, skillTarget, skillShape},
		{"viking://agent", yes, resourceTarget, skillShape},
		{"viking://agent/bot", yes, resourceTarget, skillShape},
		{"viking://agent/bot/notes/x", yes, resourceTarget, skillShape},
		{"viking://agent/bot/skills", yes, skillTarget, skillShape},
		{"viking://agent/bot/skills/wiki", yes, skillTarget, yes},
		{"viking://agent/bot/memories", yes, memoryTarget, skillShape},
		{"viking://agent/bot/memories/facts", yes, yes, skillShape},
		{"viking://agent/bot/resources", yes, resourceTarget, skillShape},
		{"viking://agent/bot/resources/x", yes, yes, skillShape},
		{"viking://user/ann/sessions", yes, resourceTarget, skillShape},
		{"viking://user/ann/sessions/s1", yes, resourceTarget, skillShape},
		{"viking://session/s1", yes, resourceTarget, skillShape},
		{"viking://user/ann/peers", yes, resourceTarget, skillShape},
		{"viking://user/ann/peers/bob", yes, resourceTarget, skillShape},
		{"viking://user/ann/peers/bob/memories", yes, memoryTarget, skillShape},
		{"viking://user/ann/peers/bob/memories/facts", yes, yes, skillShape},
		{"viking://user/ann/peers/bob/resources", yes, resourceTarget, skillShape},
		{"viking://user/ann/peers/bob/resources/x", yes, yes, skillShape},
		{"viking://user/ann/peers/bob/skills/x", yes, resourceTarget, skillShape},
		{"viking://user/ann/privacy", denied, resourceTarget, skillShape},
		{"viking://user/ann/privacy/x", denied, resourceTarget, skillShape},
		{"viking://user/bob", denied, denied, denied},
		{"viking://user/Ann/resources/x", denied, denied, denied},
		{"viking://user/bob/resources/x", denied, denied, denied},
		{"viking://user/bob/skills/wiki", denied, denied, denied},
		{"viking://user/bob/skills/wiki/SKILL.md", denied, denied, denied},
		{"viking://user/ann/../bob/memories/x", badURI, badURI, badURI},
		{"viking://user/skills/wiki", badURI, badURI, badURI},
		{"viking://temp/a", badURI, badURI, badURI},
		{"viking://queue/a", badURI, badURI, badURI},
		{"viking://upload/a", badURI, badURI, badURI},
	}
	for _, tc := range cases {
		t.Run(tc.uri, func(t *testing.T) {
			check(t, Request{From: []string{tc.uri}, To: goodTo, Skill: goodSkill}, "from[0]", tc.from)
			check(t, Request{From: goodFrom, To: tc.uri, Skill: goodSkill}, "to", tc.to)
			check(t, Request{From: goodFrom, To: goodTo, Skill: tc.uri}, "skill", tc.skill)
		})
	}
}

// check canonicalizes as ann and compares the one fault of the field.
func check(t *testing.T, req Request, field, want string) {
	t.Helper()
	got, faults := Canonicalize(req, Caller{User: "ann"}, testTime)
	if want == yes {
		if len(faults) > 0 {
			t.Errorf("as %s: %v, want it accepted", field, faults[0])
		}
		again, faults := Canonicalize(Request(got), Caller{User: "ann"}, testTime)
		if diff := cmp.Diff(got, again); diff != "" || len(faults) > 0 {
			t.Errorf("as %s it does not canonicalize to itself: %v\n%s", field, faults, diff)
		}
		return
	}
	if len(faults) != 1 {
		t.Fatalf("as %s: %d faults %v, want one: %s", field, len(faults), faults, want)
	}
	if line := fmt.Sprintf("%s %s", faults[0].Code, faults[0]); faults[0].Field != field || !strings.HasPrefix(line, want) {
		t.Errorf("as %s: %s: %s, want %s", field, faults[0].Field, line, want)
	}
}

func TestUnknownCallerHasNoTree(t *testing.T) {
	for name, caller := range map[string]Caller{"no user": {}, "no valid user": {User: "."}, "a user with a slash": {User: "a/b"}} {
		t.Run(name, func(t *testing.T) {
			req := Request{From: []string{"viking://user/ann/memories"}, To: "viking://user/ann/resources/x", Skill: goodSkill}
			_, faults := Canonicalize(req, caller, testTime)
			if len(faults) != 2 || faults[0].Code != CodePermissionDenied || faults[1].Code != CodePermissionDenied {
				t.Errorf("faults %v, want two refusals", faults)
			}
			if _, faults := Canonicalize(Request{From: goodFrom, To: goodTo, Skill: goodSkill}, caller, testTime); len(faults) > 0 {
				t.Errorf("shared trees are refused too: %v", faults)
			}
		})
	}
}
