package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/statechart/chartsvg"
)

//go:embed assets templates
var files embed.FS

// assets are the files that pages refer to. Their addresses contain a digest of all files, so browsers may cache them
// forever. A relative import in a module resolves to an address with the same digest.
type assets struct {
	digest  string
	content map[string][]byte // by name
}

// loadAssets reads the embedded files. It panics if one cannot be read, before anything is served.
func loadAssets() assets {
	a, sum := assets{content: map[string][]byte{}}, sha256.New()
	names, err := fs.Glob(files, "assets/*")
	if err != nil {
		panic(err)
	}
	add := func(name string, content []byte) {
		_, _ = sum.Write(content) // never fails
		a.content[name] = content
	}
	for _, name := range names { // in lexical order
		content, err := files.ReadFile(name)
		if err != nil {
			panic(err)
		}
		add(path.Base(name), content)
	}
	add("chart.css", []byte(chartsvg.Style))
	a.digest = hex.EncodeToString(sum.Sum(nil)[:8])
	return a
}

// assetURL returns the address of a file.
func (c *console) assetURL(name string) string {
	return c.Prefix + "/assets/" + c.assets.digest + "/" + name
}

func (c *console) serveAsset(w http.ResponseWriter, r *http.Request, below string) {
	digest, name, _ := strings.Cut(below, "/")
	content, ok := c.assets.content[name]
	if !ok || digest != c.assets.digest {
		c.serveProblem(w, r, notFound("There is no such file.", "The page may be of another build: load it again."))
		return
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}
