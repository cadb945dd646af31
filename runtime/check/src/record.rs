//! The last call that a worker's case made, for the capture of what is wrong with it.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::{fs, io};

use udo_runtime::npy;
use udo_runtime::operators::Operators;
use udo_testing::Output;

use crate::capture::{Capture, CapturedInput, CapturedOutput, CapturedWanted};
use crate::graphs::Part;
use crate::node::Node;
use crate::oracle::Wanted;

/// A call.
#[derive(Debug)]
struct Call {
    node: Node,
    values: Vec<Vec<u8>>,
    found: Vec<Output>,
    wanted: Option<(String, Vec<Wanted>)>,
}

static LAST: Mutex<Option<Call>> = Mutex::new(None);

/// Where each call goes before it is made, of a worker that is there for a case in which the process ends.
static AHEAD: Mutex<Option<(Capture, PathBuf)>> = Mutex::new(None);

/// The graph that a case found to be wrong, and its inputs.
static GRAPH: Mutex<Option<Files>> = Mutex::new(None);

/// Files by what their names end with.
type Files = Vec<(String, Vec<u8>)>;

/// The digest of the package's files.
pub(crate) fn digest(registry: &Operators, package: &str) -> String {
    let own = registry.packages().find(|own| own.name == package);
    let digest = own.and_then(|own| own.index_sha256.clone().or_else(|| own.sha256.clone()));
    digest.unwrap_or_default()
}

/// A case begins, which has made no call.
pub(crate) fn clear() {
    if let Ok(mut last) = LAST.lock() {
        *last = None;
    }
    if let Ok(mut graph) = GRAPH.lock() {
        *graph = None;
    }
}

/// The case is about a graph, and not about a call.
pub(crate) fn graph(part: &Part) {
    clear();
    let mut files = vec![("graph".to_owned(), part.graph.to_string().into_bytes())];
    // Elements of a type that numpy has not are missing.
    let inputs = part
        .given
        .iter()
        .filter_map(|(name, tensor)| Some((format!("{name}.npy"), npy::write(tensor).ok()?)));
    files.extend(inputs);
    if let Ok(mut graph) = GRAPH.lock() {
        *graph = Some(files);
    }
}

/// Writes the graph into `folder` as files whose names begin as `stem`; nothing where there is none.
pub(crate) fn write_graph(folder: &Path, stem: &str) -> Option<io::Result<PathBuf>> {
    let files = GRAPH.lock().ok()?.take()?;
    let path = |end: &str| folder.join(format!("{stem}.{end}"));
    let write = || {
        fs::create_dir_all(folder)?;
        files.iter().try_for_each(|(end, bytes)| fs::write(path(end), bytes))
    };
    Some(write().map(|()| path("graph")))
}

/// From now on each call is written to `path` before it is made.
pub(crate) fn write_ahead(head: Capture, path: PathBuf) {
    if let Ok(mut ahead) = AHEAD.lock() {
        *ahead = Some((head, path));
    }
}

/// Whether calls are written before they are made.
pub(crate) fn is_ahead() -> bool {
    AHEAD.lock().is_ok_and(|ahead| ahead.is_some())
}

/// The node is called on these elements, or held to something.
pub(crate) fn begins(node: &Node, values: &[Vec<u8>]) {
    let call =
        Call { node: node.clone(), values: values.to_vec(), found: Vec::new(), wanted: None };
    if let Ok(ahead) = AHEAD.lock()
        && let Some((head, path)) = &*ahead
        && let Some(capture) = captured(&call, head.clone())
    {
        // A capture that cannot be written is missing, which the parent says.
        let _ = fs::write(path, capture.to_bytes());
    }
    if let Ok(mut last) = LAST.lock() {
        *last = Some(call);
    }
}

/// The last call has made these outputs.
pub(crate) fn made(outputs: &[Output]) {
    if let Ok(mut last) = LAST.lock()
        && let Some(last) = &mut *last
    {
        last.found = outputs.to_vec();
    }
}

/// Results of the last call are held to these.
pub(crate) fn wants(by: &str, wanted: &[Wanted]) {
    if let Ok(mut last) = LAST.lock()
        && let Some(last) = &mut *last
    {
        last.wanted = Some((by.to_owned(), wanted.to_vec()));
    }
}

/// The last call as a capture that begins as `head`; nothing where none was made.
pub(crate) fn last(head: Capture) -> Option<Capture> {
    let last = LAST.lock().ok()?;
    captured(last.as_ref()?, head)
}

fn captured(call: &Call, head: Capture) -> Option<Capture> {
    let inputs = call.node.inputs.iter().zip(&call.values).map(|(input, bytes)| CapturedInput {
        desc: input.desc,
        dims: if input.desc.is_absent() { Vec::new() } else { input.dims.clone() },
        is_constant: input.constant.is_some(),
        bytes: bytes.clone(),
    });
    let inputs: Vec<_> = inputs.collect();
    // Texts are no bytes that another process could read.
    if inputs.iter().any(|input| input.desc.dtype() == Some(udo_api::DType::Str)) {
        return None;
    }
    let outputs = call.node.outputs.iter().enumerate().map(|(port, desc)| CapturedOutput {
        desc: *desc,
        found: call
            .found
            .get(port)
            .filter(|_| !desc.is_absent())
            .map(|made| (made.dims.clone(), made.bytes.clone())),
        wanted: call.wanted.as_ref().and_then(|(by, wanted)| {
            let Wanted { dims, numbers, allowed, .. } = wanted.get(port)?.clone();
            Some(CapturedWanted { by: by.clone(), dims, numbers, allowed })
        }),
    });
    let params = call.node.params.iter();
    let params = params.map(|(name, setting)| ((*name).to_owned(), setting.clone())).collect();
    Some(Capture { inputs, params, outputs: outputs.collect(), ..head })
}
