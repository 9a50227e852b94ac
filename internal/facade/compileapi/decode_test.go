package compileapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/agentruntime/operator/internal/facade/wire"
)

const uris = `"from":["viking://resources/a"],"to":"viking://resources/w","skill":"viking://agent/skills/s"`

func TestCreateRequestIsRead(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 31) + `{}` + strings.Repeat(`}`, 31)
	cases := map[string]struct {
		body            string
		wantInstruction string
		wantArgs        string
	}{
		"the required fields alone":                     {body: `{` + uris + `}`},
		"an instruction is trimmed":                     {body: `{` + uris + `,"instruction":" \n do it \t"}`, wantInstruction: "do it"},
		"a blank instruction is absent":                 {body: `{` + uris + `,"instruction":"  "}`},
		"null is absent":                                {body: `{` + uris + `,"instruction":null,"args":null,"reason":null}`},
		"reason is the older name":                      {body: `{` + uris + `,"reason":" why "}`, wantInstruction: "why"},
		"instruction wins over reason":                  {body: `{` + uris + `,"reason":"why","instruction":"do"}`, wantInstruction: "do"},
		"even a blank one":                              {body: `{` + uris + `,"reason":"why","instruction":" "}`},
		"a null instruction leaves it to reason":        {body: `{` + uris + `,"reason":"why","instruction":null}`, wantInstruction: "why"},
		"empty args are absent":                         {body: `{` + uris + `,"args":{ }}`},
		"args keep their text but for the space":        {body: `{` + uris + `,"args":{ "n": [1.0, 12345678901234567890, 1e2, -0], "b":"<&>" }}`, wantArgs: `{"n":[1.0,12345678901234567890,1e2,-0],"b":"<&>"}`},
		"escaped pairs of surrogates are one character": {body: `{` + uris + `,"instruction":"\ud83d\ude00\\ud83d"}`, wantInstruction: "😀\\ud83d"},
		"args may nest 32 levels":                       {body: `{` + uris + `,"args":` + deep + `}`, wantArgs: deep},
		"an instruction of 64 KiB":                      {body: `{` + uris + `,"instruction":" ` + strings.Repeat("x", 64<<10) + ` "}`, wantInstruction: strings.Repeat("x", 64<<10)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parseCreate([]byte(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			if got.instruction != tc.wantInstruction || string(got.args) != tc.wantArgs {
				t.Errorf("instruction %.60q, args %.80s", got.instruction, got.args)
			}
		})
	}
}

func TestCreateRequestIsRefused(t *testing.T) {
	long := strings.Repeat("x", 4097)
	deep := strings.Repeat(`{"a":`, 32) + `{}` + strings.Repeat(`}`, 32)
	cases := map[string]struct {
		body string
		want []string
	}{
		"nothing":                               {body: "", want: []string{"body value"}},
		"no JSON":                               {body: `{"from":`, want: []string{"body value"}},
		"two values":                            {body: `{} {}`, want: []string{"body value"}},
		"no object":                             {body: `[]`, want: []string{"body type"}},
		"null":                                  {body: `null`, want: []string{"body type"}},
		"an empty object lacks all":             {body: `{}`, want: []string{"body.from missing", "body.to missing", "body.skill missing"}},
		"wrong types are all listed":            {body: `{"from":"a","to":1,"skill":null,"instruction":{},"args":[]}`, want: []string{"body.from type", "body.to type", "body.skill type", "body.instruction type", "body.args type"}},
		"from is null":                          {body: `{"from":null,"to":"x","skill":"y"}`, want: []string{"body.from type"}},
		"from is empty":                         {body: `{"from":[],"to":"x","skill":"y"}`, want: []string{"body.from value"}},
		"an item is no string":                  {body: `{"from":["a",1,null],"to":"x","skill":"y"}`, want: []string{"body.from.1 type", "body.from.2 type"}},
		"empty strings":                         {body: `{"from":["a"],"to":"","skill":""}`, want: []string{"body.to value", "body.skill value"}},
		"args are a string":                     {body: `{` + uris + `,"args":"{}"}`, want: []string{"body.args type"}},
		"unknown members":                       {body: `{` + uris + `,"runtime_timeout_seconds":1,"model_name":"m","From":[]}`, want: []string{"body.runtime_timeout_seconds extra_forbidden", "body.model_name extra_forbidden", "body.From extra_forbidden"}},
		"65 sources":                            {body: `{"from":[` + strings.TrimSuffix(strings.Repeat(`"a",`, 65), ",") + `],"to":"x","skill":"y"}`, want: []string{"body.from value"}},
		"URIs that are too long":                {body: `{"from":["` + long + `"],"to":"` + long + `","skill":"y"}`, want: []string{"body.from.0 value", "body.to value"}},
		"an instruction over 64 KiB":            {body: `{` + uris + `,"instruction":"` + strings.Repeat("x", 64<<10+1) + `"}`, want: []string{"body.instruction value"}},
		"args over 256 KiB":                     {body: `{` + uris + `,"args":{"a":"` + strings.Repeat("x", 256<<10) + `"}}`, want: []string{"body.args value"}},
		"a name twice":                          {body: `{` + uris + `,"to":"x"}`, want: []string{"body value"}},
		"a name twice in other spelling":        {body: `{` + uris + `,"\u0074o":"x"}`, want: []string{"body value"}},
		"a name twice in args":                  {body: `{` + uris + `,"args":{"l":[{"a":1,"b":2,"a":1}]}}`, want: []string{"body value"}},
		"one level too deep":                    {body: `{` + uris + `,"args":` + deep + `}`, want: []string{"body value"}},
		"a hundred thousand brackets":           {body: strings.Repeat("[", 100000), want: []string{"body value"}},
		"bytes that are not UTF-8":              {body: "{" + uris + ",\"instruction\":\"\xff\"}", want: []string{"body value"}},
		"half of a surrogate pair":              {body: `{` + uris + `,"args":{"a":"\ud83d"}}`, want: []string{"body value"}},
		"halves in the wrong order":             {body: `{` + uris + `,"args":{"a":"\ude00\ud83d"}}`, want: []string{"body value"}},
		"half of a pair before an escaped text": {body: `{` + uris + `,"args":{"a":"\ud83d\\ude00"}}`, want: []string{"body value"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := parseCreate([]byte(tc.body))
			if err == nil {
				t.Fatal("no error")
			}
			told := wire.AsError(err)
			violations, ok := told.Details["validation_errors"].([]wire.Violation)
			if told.Code != wire.CodeInvalidArgument || !ok || !strings.HasPrefix(told.Message, "Invalid request parameters: body") {
				t.Fatalf("told %v %v", told, told.Details)
			}
			var got []string
			for _, v := range violations {
				text := fmt.Sprintln(v.Loc...)
				got = append(got, strings.ReplaceAll(strings.TrimSpace(text), " ", ".")+" "+v.Type)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestViolationsAreBoundedAndShowNoValue(t *testing.T) {
	var body strings.Builder
	body.WriteString(`{"to":{"k":"s3cret"},"args":"s3cret"`)
	for i := range 1000 {
		fmt.Fprintf(&body, `,"%d%s\u0007":"s3cret"`, i, strings.Repeat("n", 100))
	}
	body.WriteString(`}`)
	_, err := parseCreate([]byte(body.String()))
	encoded, _ := json.Marshal(wire.AsError(err).Details)
	if n := strings.Count(string(encoded), `"loc"`); n != maxViolations {
		t.Errorf("%d violations, want %d", n, maxViolations)
	}
	if text := string(encoded) + wire.AsError(err).Message; strings.Contains(text, "s3cret") || len(text) > 8<<10 || strings.Contains(text, `\u0007`) {
		t.Errorf("shown: %.300s", text)
	}
}

func TestContentTypeOfACreate(t *testing.T) {
	cases := map[string]struct {
		types []string
		want  int
	}{
		"JSON":                            {types: []string{"application/json"}, want: http.StatusAccepted},
		"JSON in UTF-8":                   {types: []string{"application/json; charset=UTF-8"}, want: http.StatusAccepted},
		"none, as kubectl create --raw":   {want: http.StatusAccepted},
		"JSON in another character set":   {types: []string{"application/json; charset=latin1"}, want: http.StatusBadRequest},
		"a form, as curl sends by itself": {types: []string{"application/x-www-form-urlencoded"}, want: http.StatusBadRequest},
		"text":                            {types: []string{"text/plain"}, want: http.StatusBadRequest},
		"an empty one":                    {types: []string{""}, want: http.StatusBadRequest},
		"two":                             {types: []string{"application/json", "application/json"}, want: http.StatusBadRequest},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			request := r.request(t.Context(), http.MethodPost, "/api/v1/compile", plainBody)
			request.Header.Del("Content-Type")
			for _, value := range tc.types {
				request.Header.Add("Content-Type", value)
			}
			if got := r.do(request); got.status != tc.want {
				t.Errorf("answer %d %s, want %d", got.status, got.body, tc.want)
			}
		})
	}
}

func TestBodyIsBounded(t *testing.T) {
	r := newRig(t)
	body := `{"instruction":"` + strings.Repeat("x", MaxBodyBytes) + `"}`
	r.call(http.MethodPost, "/api/v1/compile", body).fails(t, http.StatusBadRequest, "INVALID_ARGUMENT")
}

func FuzzParseCreate(f *testing.F) {
	for _, seed := range []string{plainBody, `{` + uris + `,"args":{"a":[1e999,"\ud83d\ude00",{"api_key":"k"}]}}`, `{"from":[[[`, "\"\\ud800", `{"a":1,"a":2}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		request, err := parseCreate(body)
		if err != nil {
			if told := wire.AsError(err); told.Code != wire.CodeInvalidArgument || len(told.Details) == 0 || !utf8.ValidString(told.Message) {
				t.Errorf("told %v %v", told, told.Details)
			}
			return
		}
		if !json.Valid(body) || len(request.from) == 0 {
			t.Errorf("accepted %q as %+v", body, request)
		}
		// What was accepted can be split, and split again without a change.
		parts, err := split(request.args)
		if err != nil {
			t.Fatalf("split %s: %v", request.args, err)
		}
		again, err := split(parts.public)
		if err != nil || again.secret != nil || string(again.public) != string(parts.public) && again.public != nil {
			t.Errorf("%s splits again: %+v, %v", parts.public, again, err)
		}
	})
}
