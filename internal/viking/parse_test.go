package viking

import (
	"strings"
	"testing"
)

func TestParseAccepts(t *testing.T) {
	cases := map[string]struct{ raw, want string }{
		"a plain URI":                     {"viking://resources/research", "viking://resources/research"},
		"the root":                        {"viking://", "viking://"},
		"the root with more slashes":      {"viking:///", "viking://"},
		"surrounding spaces":              {" \tviking://resources/a \n", "viking://resources/a"},
		"a trailing slash":                {"viking://resources/a/", "viking://resources/a"},
		"several trailing slashes":        {"viking://resources/a///", "viking://resources/a"},
		"empty segments":                  {"viking://resources//a///b", "viking://resources/a/b"},
		"the user scope":                  {"viking://user/ann@example.com", "viking://user/ann@example.com"},
		"the agent scope":                 {"viking://agent/skills/wiki", "viking://agent/skills/wiki"},
		"spaces inside a segment":         {"viking://resources/my notes", "viking://resources/my notes"},
		"other alphabets":                 {"viking://resources/知识", "viking://resources/知识"},
		"dots inside a name":              {"viking://resources/a..b/.hidden", "viking://resources/a..b/.hidden"},
		"a percent sign":                  {"viking://resources/100%", "viking://resources/100%"},
		"a harmless escape":               {"viking://resources/a%20b", "viking://resources/a%20b"},
		"a peer":                          {"viking://user/ann/peers/bob", "viking://user/ann/peers/bob"},
		"a segment of the greatest size":  {"viking://resources/" + strings.Repeat("a", 255), "viking://resources/" + strings.Repeat("a", 255)},
		"a path of the greatest depth":    {"viking://resources" + strings.Repeat("/a", 63), "viking://resources" + strings.Repeat("/a", 63)},
		"letter case of paths is kept":    {"viking://resources/Wiki", "viking://resources/Wiki"},
		"a user's directory of that name": {"viking://user/ann/privacy", "viking://user/ann/privacy"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			u, fault := Parse("to", tc.raw)
			if fault != nil {
				t.Fatal(fault)
			}
			if u.String() != tc.want {
				t.Errorf("got %s, want %s", u, tc.want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	cases := map[string]struct{ raw, wantReason string }{
		"nothing":                       {"", "to must not be empty"},
		"spaces only":                   {" \t ", "to must not be empty"},
		"slashes only":                  {"//", "to must not be empty"},
		"no scheme":                     {"resources/a", "to must start with viking://"},
		"the scheme in capitals":        {"VIKING://resources/a", "to must start with viking://"},
		"another scheme":                {"file:///etc", "to must start with viking://"},
		"one slash":                     {"viking:/resources", "to must start with viking://"},
		"an unknown scope":              {"viking://other/a", "to has an unknown scope"},
		"a scope in capitals":           {"viking://Resources/a", "to has an unknown scope"},
		"an escaped scope":              {"viking://%75ser/a", "to has an unknown scope"},
		"another user's home":           {"viking://~bob/a", "to has an unknown scope"},
		"scope temp":                    {"viking://temp/a", `to uses the internal scope "temp"`},
		"scope queue":                   {"viking://queue/a", `to uses the internal scope "queue"`},
		"scope upload":                  {"viking://upload", `to uses the internal scope "upload"`},
		"the home alias, nobody asking": {"viking://~/a", `to uses the alias "~"`},
		"the session alias likewise":    {"viking://session/1", `to uses the alias "session"`},
		"a query":                       {"viking://resources/a?x=1", "to must not contain ?"},
		"a fragment":                    {"viking://resources/a#x", "to must not contain ?"},
		"a backslash":                   {`viking://resources/a\b`, "to must not contain ?"},
		"a way up":                      {"viking://resources/a/../b", "to must not contain . or .. segments"},
		"a way up at the end":           {"viking://resources/..", "to must not contain . or .. segments"},
		"a dot segment":                 {"viking://resources/./a", "to must not contain . or .. segments"},
		"an escaped way up":             {"viking://resources/%2e%2E/b", "to must not contain percent-encoded"},
		"an escaped dot":                {"viking://resources/%2e", "to must not contain percent-encoded"},
		"an escaped slash":              {"viking://resources/a%2fb", "to must not contain percent-encoded"},
		"an escaped backslash":          {"viking://resources/a%5Cb", "to must not contain percent-encoded"},
		"a doubly escaped slash":        {"viking://resources/a%252fb", "to must not contain percent-encoded"},
		"an escape made of escapes":     {"viking://resources/%25%32%65", "to must not contain percent-encoded"},
		"a control character":           {"viking://resources/a\x01b", "to must not contain control characters"},
		"invalid UTF-8":                 {"viking://resources/\xc0\xae", "to must be valid UTF-8"},
		"a space at a segment's end":    {"viking://resources/a /b", "to must not have a segment that begins or ends"},
		"a long segment":                {"viking://resources/" + strings.Repeat("a", 256), "to must not have a segment longer than 255 bytes"},
		"a long URI":                    {"viking://resources" + strings.Repeat("/"+strings.Repeat("a", 99), 41), "to must not be longer than 4096 bytes"},
		"a deep URI":                    {"viking://resources" + strings.Repeat("/a", 64), "to must not be deeper than 64 segments"},
		"a uid with two ats":            {"viking://user/a@b@c", "to has an invalid user id"},
		"a uid with a colon":            {"viking://user/system:x", "to has an invalid user id"},
		"a uid of another alphabet":     {"viking://user/安", "to has an invalid user id"},
		"a peer id with a space":        {"viking://user/ann/peers/a b", "to has an invalid peer id"},
		"memories without a uid":        {"viking://user/memories/x", `to has no user id before "memories"; use viking://~/memories`},
		"resources without a uid":       {"viking://user/resources", "to has no user id"},
		"skills without a uid":          {"viking://user/skills/x", "to has no user id"},
		"peers without a uid":           {"viking://user/peers/x", "to has no user id"},
		"privacy without a uid":         {"viking://user/privacy", "to has no user id"},
		"sessions without a uid":        {"viking://user/sessions/1", "to has no user id"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			u, fault := Parse("to", tc.raw)
			if fault == nil {
				t.Fatalf("accepted as %s", u)
			}
			if fault.Code != CodeInvalidURI || fault.Field != "to" || !strings.HasPrefix(fault.Reason, tc.wantReason) {
				t.Errorf("got %+v, want INVALID_URI because %s", fault, tc.wantReason)
			}
			if want := "Invalid URI: " + fault.URI + " (" + fault.Reason + ")"; fault.Error() != want {
				t.Errorf("message %q, want %q", fault.Error(), want)
			}
			if len(fault.Error()) > displayLimit+300 || strings.ContainsFunc(fault.Error(), unsafeRune) {
				t.Errorf("the message is not fit to print: %q", fault.Error())
			}
		})
	}
}

func TestCallerParse(t *testing.T) {
	cases := map[string]struct{ user, raw, want, wantReason string }{
		"home":                              {user: "ann", raw: "viking://~", want: "viking://user/ann"},
		"below home":                        {user: "ann", raw: "viking://~/memories/facts/", want: "viking://user/ann/memories/facts"},
		"a session":                         {user: "ann", raw: "viking://session/s1/log", want: "viking://user/ann/sessions/s1/log"},
		"all sessions":                      {user: "ann", raw: "viking://session", want: "viking://user/ann/sessions"},
		"a reserved word that is the uid":   {user: "memories", raw: "viking://user/memories/skills", want: "viking://user/memories/skills"},
		"a reserved word that is another's": {user: "ann", raw: "viking://user/memories/skills", wantReason: "to has no user id"},
		"home of a uid that cannot be one":  {user: "..", raw: "viking://~/x", wantReason: `to uses the alias "~"`},
		"home of a uid with a slash":        {user: "a/b", raw: "viking://~/x", wantReason: `to uses the alias "~"`},
		"a peer id below home":              {user: "ann", raw: "viking://~/peers/a b", wantReason: "to has an invalid peer id"},
		"too deep once expanded":            {user: "ann", raw: "viking://~" + strings.Repeat("/a", 63), wantReason: "to must not be deeper"},
		"too long once expanded": {
			user: strings.Repeat("u", 255), raw: "viking://~" + strings.Repeat("/"+strings.Repeat("a", 199), 20),
			wantReason: "to must not be longer",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			u, fault := Caller{User: tc.user}.Parse("to", tc.raw)
			switch {
			case tc.wantReason != "":
				if fault == nil || !strings.HasPrefix(fault.Reason, tc.wantReason) {
					t.Errorf("got %v, %v, want a fault: %s", u, fault, tc.wantReason)
				}
			case fault != nil:
				t.Error(fault)
			case u.String() != tc.want:
				t.Errorf("got %s, want %s", u, tc.want)
			}
		})
	}
}
