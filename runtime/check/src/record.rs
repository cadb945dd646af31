//! Records the last call of a case in a worker, so that a failure of the case can be saved as a capture.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fs, io};

use udo_testing::Output;

use crate::capture::{Capture, CapturedInput, CapturedOutput, CapturedWanted};
use crate::expected::{Expected, OracleResults};
use crate::node::Node;

/// Records the calls of one worker's cases. Calls on several threads may share it.
#[derive(Debug, Default)]
pub(crate) struct Recorder(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: Option<Call>,
    /// The capture file that each call is written to before it starts, in a worker that repeats a crashing
    /// case.
    ahead: Option<Ahead>,
    /// The failing graph of a case, and its inputs.
    graph: Option<Files>,
}

/// A call.
#[derive(Debug)]
struct Call {
    node: Node,
    values: Vec<Vec<u8>>,
    found: Vec<Output>,
    expected: Option<OracleResults>,
}

/// The file to which each call is saved before it starts.
#[derive(Debug)]
struct Ahead {
    head: Capture,
    path: PathBuf,
}

/// Pairs of a file name's extension and the file's contents.
pub(crate) type Files = Vec<(String, Vec<u8>)>;

impl Recorder {
    /// Locks the state, which is valid even if a thread panicked with the lock.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a case: forgets the last call and graph.
    pub(crate) fn clear(&self) {
        let mut state = self.state();
        (state.last, state.graph) = (None, None);
    }

    /// Records that the case runs the graph in `files`, not a single call.
    pub(crate) fn graph(&self, files: Files) {
        let mut state = self.state();
        (state.last, state.graph) = (None, Some(files));
    }

    /// Writes the graph into `folder` as files whose names begin with `stem`; `None` if there is no graph.
    pub(crate) fn write_graph(&self, folder: &Path, stem: &str) -> Option<io::Result<PathBuf>> {
        let files = self.state().graph.take()?;
        let path = |end: &str| folder.join(format!("{stem}.{end}"));
        let write = || {
            fs::create_dir_all(folder)?;
            files.iter().try_for_each(|(end, bytes)| udo_files::write(&path(end), bytes))
        };
        Some(write().map(|()| path("graph")))
    }

    /// Writes each later call to `path` before it starts.
    pub(crate) fn write_ahead(&self, head: Capture, path: PathBuf) {
        self.state().ahead = Some(Ahead { head, path });
    }

    /// Whether calls are written before they start.
    pub(crate) fn is_ahead(&self) -> bool {
        self.state().ahead.is_some()
    }

    /// Records that a call on these elements starts.
    pub(crate) fn begins(&self, node: &Node, values: &[Vec<u8>]) {
        let call =
            Call { node: node.clone(), values: values.to_vec(), found: Vec::new(), expected: None };
        let mut state = self.state();
        if let Some(Ahead { head, path }) = &state.ahead
            && let Some(capture) = captured(&call, head.clone())
        {
            // An error is ignored: the parent process reports a missing capture.
            let _ = udo_files::write(path, &capture.to_bytes());
        }
        state.last = Some(call);
    }

    /// Records the outputs of the last call.
    pub(crate) fn record_outputs(&self, outputs: &[Output]) {
        if let Some(last) = &mut self.state().last {
            last.found = outputs.to_vec();
        }
    }

    /// Records the expected results of the last call.
    pub(crate) fn wants(&self, expected: &OracleResults) {
        if let Some(last) = &mut self.state().last {
            last.expected = Some(expected.clone());
        }
    }

    /// Returns the last call as a capture with the fields of `head`; `None` if there was no call.
    pub(crate) fn last(&self, head: Capture) -> Option<Capture> {
        captured(self.state().last.as_ref()?, head)
    }
}

fn captured(call: &Call, head: Capture) -> Option<Capture> {
    let inputs = call.node.inputs.iter().zip(&call.values).map(|(input, bytes)| CapturedInput {
        desc: input.desc,
        dims: if input.desc.is_absent() { Vec::new() } else { input.dims.clone() },
        is_constant: input.constant.is_some(),
        bytes: bytes.clone(),
    });
    let inputs: Vec<_> = inputs.collect();
    // String elements hold pointers, which another process cannot read.
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
        wanted: call.expected.as_ref().and_then(|OracleResults { kind, wanted }| {
            let Expected { dims, numbers, allowed, .. } = wanted.get(port)?.clone();
            Some(CapturedWanted { by: kind.describe().to_owned(), dims, numbers, allowed })
        }),
    });
    let params = call.node.params.iter();
    let params = params.map(|(name, setting)| ((*name).to_owned(), setting.clone())).collect();
    Some(Capture { inputs, params, outputs: outputs.collect(), ..head })
}

#[cfg(test)]
mod tests {
    use udo_api::{DType, Shape, TensorDesc};

    use super::*;
    use crate::node::Input;
    use crate::shapes::Class;

    fn node() -> Node {
        let desc = TensorDesc::new(DType::U8, Shape::new(&[2]).unwrap());
        let inputs = vec![Input { desc, dims: vec![2], constant: None }];
        let (params, outputs) = (Vec::new(), vec![desc]);
        Node { class: Class::Captured, kernel: 0, inputs, params, outputs, fixed: None }
    }

    #[test]
    fn the_last_call_is_there_until_the_next_case() {
        let recorder = Recorder::default();
        let last = || recorder.last(Capture::default());
        assert!(last().is_none());
        recorder.begins(&node(), &[vec![1, 2]]);
        recorder.begins(&node(), &[vec![3, 4]]);
        recorder.record_outputs(&[Output { dims: vec![2], bytes: vec![6, 8] }]);
        let call = last().unwrap();
        assert_eq!(call.inputs[0].bytes, [3, 4]);
        assert_eq!(call.outputs[0].found, Some((vec![2], vec![6, 8])));
        assert!(call.outputs[0].wanted.is_none());
        recorder.graph(vec![("graph".to_owned(), b"nodes".to_vec())]);
        assert!(last().is_none(), "the case is about a graph");
        let folder = tempfile::tempdir().unwrap();
        let path = recorder.write_graph(folder.path(), "wrong").unwrap().unwrap();
        assert_eq!(fs::read(path).unwrap(), b"nodes");
        assert!(recorder.write_graph(folder.path(), "wrong").is_none(), "it is written once");
        recorder.begins(&node(), &[vec![1, 2]]);
        recorder.clear();
        assert!(last().is_none());
    }

    #[test]
    fn calls_are_written_before_they_are_made() {
        let (recorder, folder) = (Recorder::default(), tempfile::tempdir().unwrap());
        let path = folder.path().join("call.udo");
        assert!(!recorder.is_ahead());
        recorder.write_ahead(Capture { op: "Add".to_owned(), ..Capture::default() }, path.clone());
        assert!(recorder.is_ahead() && !path.exists());
        recorder.begins(&node(), &[vec![5, 7]]);
        let capture = Capture::read(&path).unwrap();
        assert_eq!((&*capture.op, &*capture.inputs[0].bytes), ("Add", &[5, 7][..]));
    }
}
