package compileapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentruntime/operator/api/v1alpha1"
)

// listed returns the objects' names, by the targets that seeds give them.
func (r *rig) listed(query string) []string {
	r.t.Helper()
	got := r.call(http.MethodGet, "/api/v1/tasks"+query, "")
	var envelope struct {
		Status string           `json:"status"`
		Result []map[string]any `json:"result"`
	}
	got.decode(r.t, &envelope)
	if got.status != http.StatusOK || envelope.Status != "ok" || envelope.Result == nil {
		r.t.Fatalf("answer %d %s", got.status, got.body)
	}
	names := []string{}
	for _, record := range envelope.Result {
		meta, _ := record["meta"].(map[string]any)
		request, _ := meta["request"].(map[string]any)
		to, _ := request["to"].(string)
		names = append(names, strings.TrimPrefix(to, "viking://resources/"))
	}
	return names
}

// seedList stores tasks of alice's, a to d in the order of their age, and one of
// bob's.
func (r *rig) seedList() {
	for i, name := range []string{"a", "b", "c", "d", "bobs"} {
		r.seed(name, func(task *v1alpha1.CompileTask) {
			task.CreationTimestamp = metav1.NewTime(noon.Add(time.Duration(i) * time.Minute))
			task.Spec.To = "viking://resources/" + name
			switch name {
			case "b":
				becomes(v1alpha1.CompileTaskRunning, "agent")(task)
			case "c":
				becomes(v1alpha1.CompileTaskFailed, "agent")(task)
				task.Spec.From = []string{"viking://resources/Other"}
			case "bobs":
				task.Spec.Requester.Username = "bob"
			}
		})
	}
}

func TestList(t *testing.T) {
	cases := map[string]struct {
		query  string
		caller string
		want   []string
	}{
		"own tasks, newest first":              {want: []string{"d", "c", "b", "a"}},
		"another user's own":                   {caller: "bob", want: []string{"bobs"}},
		"at most the limit":                    {query: "?limit=2", want: []string{"d", "c"}},
		"the limit at its bounds":              {query: "?limit=200", want: []string{"d", "c", "b", "a"}},
		"by type":                              {query: "?task_type=compile", want: []string{"d", "c", "b", "a"}},
		"by a type that does not exist":        {query: "?task_type=add_resource", want: []string{}},
		"by status":                            {query: "?status=running", want: []string{"b"}},
		"by status pending":                    {query: "?status=pending", want: []string{"d", "a"}},
		"by a status that does not exist":      {query: "?status=Running", want: []string{}},
		"by source":                            {query: "?resource_id=" + url.QueryEscape("viking://resources/Other"), want: []string{"c"}},
		"by several sources":                   {query: "?resource_id=" + url.QueryEscape("viking://resources/a, viking://resources/b"), want: []string{"d", "b", "a"}},
		"by one of several sources":            {query: "?resource_id=" + url.QueryEscape("viking://resources/a"), want: []string{}},
		"by all together":                      {query: "?task_type=compile&status=failed&limit=1", want: []string{"c"}},
		"empty filters are none":               {query: "?task_type=&status=&resource_id=&q=&scope=&pagination=&cursor=&include_internal=", want: []string{"d", "c", "b", "a"}},
		"unknown parameters are ignored":       {query: "?profile=1&offset=2&x", want: []string{"d", "c", "b", "a"}},
		"internal types too":                   {query: "?include_internal=true", want: []string{"d", "c", "b", "a"}},
		"searched in any case":                 {query: "?q=OTHER", want: []string{"c"}},
		"searched in the target":               {query: "?q=resources/d", want: []string{"d"}},
		"searched in the Skill":                {query: "?q=llm-wiki&limit=1", want: []string{"d"}},
		"searched in vain":                     {query: "?q=nothing", want: []string{}},
		"the namespace's, for who may see all": {query: "?scope=namespace", caller: "root", want: []string{"bobs", "d", "c", "b", "a"}},
		"filters hold there too":               {query: "?scope=namespace&status=running", caller: "root", want: []string{"b"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.seedList()
			if tc.caller != "" {
				r = r.as(tc.caller)
			}
			if diff := cmp.Diff(tc.want, r.listed(tc.query)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestListThatIsRefused(t *testing.T) {
	cases := map[string]struct {
		query, caller string
		wantStatus    int
	}{
		"limit 0":                  {query: "?limit=0", wantStatus: 400},
		"limit 201":                {query: "?limit=201", wantStatus: 400},
		"limit negative":           {query: "?limit=-1", wantStatus: 400},
		"limit empty":              {query: "?limit=", wantStatus: 400},
		"limit no integer":         {query: "?limit=1.0", wantStatus: 400},
		"limit beyond integers":    {query: "?limit=99999999999999999999", wantStatus: 400},
		"a flag that is none":      {query: "?include_internal=maybe", wantStatus: 400},
		"another scope":            {query: "?scope=cluster", wantStatus: 400},
		"another pagination":       {query: "?pagination=offset", wantStatus: 400},
		"a cursor without a mode":  {query: "?cursor=x", wantStatus: 400},
		"a cursor of nobody":       {query: "?pagination=cursor&cursor=x", wantStatus: 400},
		"a cursor too long":        {query: "?pagination=cursor&cursor=" + strings.Repeat("x", 2049), wantStatus: 400},
		"q too long":               {query: "?q=" + strings.Repeat("x", 201), wantStatus: 400},
		"a malformed query":        {query: "?q=%zz", wantStatus: 400},
		"the whole namespace":      {query: "?scope=namespace", wantStatus: 403},
		"own tasks without a role": {caller: "carol", wantStatus: 403},
		"nobody's":                 {caller: "nobody", wantStatus: 403},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.seedList()
			if tc.caller != "" {
				r = r.as(strings.TrimPrefix(tc.caller, "nobody"))
			}
			code := map[int]string{400: "INVALID_ARGUMENT", 403: "PERMISSION_DENIED"}[tc.wantStatus]
			r.call(http.MethodGet, "/api/v1/tasks"+tc.query, "").fails(t, tc.wantStatus, code)
		})
	}
}

func TestListThatFails(t *testing.T) {
	r := newRig(t)
	r.tasks.listErr = errors.New("cache is down")
	r.call(http.MethodGet, "/api/v1/tasks", "").fails(t, http.StatusServiceUnavailable, "UNAVAILABLE")
}

func TestListRecordsAreThoseOfGet(t *testing.T) {
	r := newRig(t)
	task := r.seed("one", becomes(v1alpha1.CompileTaskFailed, "agent"))
	var list struct{ Result []map[string]any }
	r.call(http.MethodGet, "/api/v1/tasks", "").decode(t, &list)
	if diff := cmp.Diff([]map[string]any{r.shown(task)}, list.Result); diff != "" {
		t.Errorf("(-get +list):\n%s", diff)
	}
}

func TestALargeListEndsEarly(t *testing.T) {
	r := newRig(t)
	for i := range 4 {
		r.seed(fmt.Sprint("t", i), becomes(v1alpha1.CompileTaskCompleted, "completed"))
	}
	r.tasks.result = json.RawMessage(`{"a":"` + strings.Repeat("x", maxListBytes/2-4096) + `"}`)
	if got := r.listed(""); len(got) != 2 {
		t.Errorf("%d records, want 2", len(got))
	}
	r.tasks.result = json.RawMessage(`{"a":"` + strings.Repeat("x", maxListBytes) + `"}`)
	got := r.page("?pagination=cursor")
	if len(got.Items) != 1 || !got.HasMore || got.NextCursor == "" {
		t.Errorf("%d items, more %t", len(got.Items), got.HasMore)
	}
}

type cursorPage struct {
	Items []struct {
		ID string `json:"task_id"`
	} `json:"items"`
	HasMore    bool   `json:"has_more"`
	NextCursor string `json:"next_cursor"`
}

func (r *rig) page(query string) cursorPage {
	r.t.Helper()
	var envelope struct{ Result cursorPage }
	got := r.call(http.MethodGet, "/api/v1/tasks"+query, "")
	got.decode(r.t, &envelope)
	if got.status != http.StatusOK || envelope.Result.Items == nil {
		r.t.Fatalf("answer %d %.300s", got.status, got.body)
	}
	return envelope.Result
}

func TestCursorsWalkOverAll(t *testing.T) {
	const all = 205
	r := newRig(t)
	for i := range all {
		// Many are equally old.
		r.seed(fmt.Sprint("t", i), func(task *v1alpha1.CompileTask) {
			task.CreationTimestamp = metav1.NewTime(noon.Add(time.Duration(i/20) * time.Second))
		})
	}
	seen, cursor := map[string]int{}, ""
	for pages := 0; ; pages++ {
		got := r.page("?pagination=cursor&limit=20&cursor=" + url.QueryEscape(cursor))
		for _, item := range got.Items {
			seen[item.ID]++
		}
		if got.HasMore != (got.NextCursor != "") {
			t.Fatalf("more %t, next %q", got.HasMore, got.NextCursor)
		}
		if pages == 0 {
			// A task that is new does not disturb the walk.
			r.seed("new", func(task *v1alpha1.CompileTask) { task.CreationTimestamp = metav1.NewTime(noon.Add(time.Hour)) })
		}
		if !got.HasMore {
			if pages != all/20 {
				t.Errorf("%d pages", pages+1)
			}
			break
		}
		cursor = got.NextCursor
	}
	if len(seen) != all {
		t.Errorf("%d records seen, want %d", len(seen), all)
	}
	for id, times := range seen {
		if times != 1 {
			t.Errorf("%s was seen %d times", id, times)
		}
	}
}

func TestAnEmptyPage(t *testing.T) {
	r := newRig(t)
	got := r.call(http.MethodGet, "/api/v1/tasks?pagination=cursor", "")
	if got.body != `{"status":"ok","result":{"items":[],"has_more":false,"next_cursor":null}}` {
		t.Errorf("answer %s", got.body)
	}
}

func TestACursorFitsOnlyItsOwnList(t *testing.T) {
	r := newRig(t)
	r.rights.set("alice get any", true)
	r.seedList()
	cursor := r.page("?pagination=cursor&limit=1&status=pending").NextCursor
	if len(cursor) == 0 || len(cursor) > maxCursorBytes {
		t.Fatalf("cursor %q", cursor)
	}
	place, mac, _ := strings.Cut(cursor, ".")
	list := func(r *rig, query, cursor string) answer {
		return r.call(http.MethodGet, "/api/v1/tasks?pagination=cursor&"+query+"&cursor="+url.QueryEscape(cursor), "")
	}
	if got := list(r, "limit=9&status=pending", cursor); got.status != http.StatusOK {
		t.Fatalf("its own list, by another limit: %d %s", got.status, got.body)
	}
	elsewhere := *r
	elsewhere.info.Namespace = "docs2"
	for name, got := range map[string]answer{
		"another status":  list(r, "status=running", cursor),
		"no filter":       list(r, "", cursor),
		"another search":  list(r, "status=pending&q=a", cursor),
		"another source":  list(r, "status=pending&resource_id=a", cursor),
		"another scope":   list(r, "status=pending&scope=namespace", cursor),
		"another user":    list(r.as("bob"), "status=pending", cursor),
		"another place":   list(r, "status=pending", "x"+place+"."+mac),
		"no signature":    list(r, "status=pending", place),
		"a cut signature": list(r, "status=pending", cursor[:len(cursor)-2]),
	} {
		t.Run(name, func(t *testing.T) { got.fails(t, http.StatusBadRequest, "INVALID_ARGUMENT") })
	}
	if got := list(&elsewhere, "status=pending", cursor); got.status == http.StatusOK {
		t.Error("it fits another namespace")
	}
	r.keys.ring = newRing(t)
	r.rebuild()
	list(r, "limit=9&status=pending", cursor).fails(t, http.StatusBadRequest, "INVALID_ARGUMENT")
}
