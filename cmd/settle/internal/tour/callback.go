package tour

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/settle-run/settle/machines/enrich"
)

// calledBack plays a third party that finds a result, and then one that does not.
func (p *player) calledBack() []end {
	p.title("A third party that calls back, once",
		"It gets a callback address for this instance only. While it works, nothing runs: the instance is",
		"an item in DynamoDB, and the task waits in Step Functions. Only its first callback is accepted.")
	const found, missed = "enrich/demo-7", "enrich/demo-8"
	arn, party := p.ask(found, "https://example.com/company/7")
	p.findByAlias(found, party.job)
	data := map[string]any{"jobId": party.job, "success": true, "data": map[string]any{"name": "Acme", "employees": 250}}
	forged := party
	forged.callback = party.callback[:strings.LastIndexByte(party.callback, '/')+1] + "a-wrong-key"
	for _, try := range []struct {
		party asked
		want  int
	}{{forged, http.StatusNotFound}, {party, http.StatusAccepted}, {party, http.StatusConflict}} {
		p.callBack(try.party, data, try.want)
		if try.want == http.StatusAccepted {
			p.await(found, "", "succeeded")
		}
	}
	ended := p.ended("enrich", arn, "Enrich")
	p.showEnd(found, ended)

	p.say("\n   Another one finds nothing. Its workflow receives the reason and takes another path.\n")
	arn, party = p.ask(missed, "https://example.com/company/8")
	p.callBack(party, map[string]any{"jobId": party.job, "success": false, "error": "the page is gone"}, http.StatusAccepted)
	p.await(missed, "", "failed")
	ended = p.ended("enrich", arn, "Enrich", "NothingFound")
	p.showEnd(missed, ended)
	return []end{{found, []string{"succeeded"}}, {missed, []string{"failed"}}}
}

// ask starts the workflow. It returns what the third party knows once the instance waits for it.
func (p *player) ask(instance, subject string) (execution string, party asked) {
	execution = p.startWorkflow("enrich", instance, map[string]any{"subject": subject, "reference": strings.TrimPrefix(instance, "enrich/")})
	p.await(instance, "", "waiting")
	// The lookup fails until the alias is claimed.
	p.performed(instance)
	return execution, p.seen.lastAsked()
}

// findByAlias looks up the instance by the third party's job ID.
func (p *player) findByAlias(instance, job string) {
	answer := p.request(http.MethodGet, "/aliases/"+enrich.Alias(job), "", nil, nil, "", http.StatusOK)
	var view struct {
		Instance   string   `json:"instance"`
		State      []string `json:"state"`
		Status     string   `json:"status"`
		NextEvents []string `json:"next_events"`
	}
	p.check(json.Unmarshal(answer, &view), "reading the instance with the alias "+enrich.Alias(job))
	p.say("     %s", p.config.Style.Dim(oneLine(view)))
	if view.Instance != instance {
		p.check(fmt.Errorf("expected %s to have the alias %s, got %s", instance, enrich.Alias(job), view.Instance))
	}
}

// callBack posts to the callback address. Most of its key is not printed.
func (p *player) callBack(party asked, body map[string]any, want int) {
	text := p.json(body)
	path := strings.TrimPrefix(party.callback, p.stack.HTTPURL())
	p.request(http.MethodPost, path, shortened(path), jsonHeader(), text, fmt.Sprintf(`{"success": %v, ...}`, body["success"]), want)
}

// keyShown is how much of a callback key is printed.
const keyShown = 12

// shortened returns a callback address without most of its key, because the key authorizes a callback.
func shortened(address string) string {
	key := address[strings.LastIndexByte(address, '/')+1:]
	if len(key) <= keyShown {
		return address
	}
	return strings.TrimSuffix(address, key) + key[:keyShown/2] + "..."
}
