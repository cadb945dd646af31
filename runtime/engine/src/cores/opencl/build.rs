//! Compiles a package's source to a kernel, and checks its arguments and work-group size.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, Weak};

use opencl3::kernel::{CL_KERNEL_ARG_ADDRESS_LOCAL, Kernel as ClKernel};
use opencl3::program::Program;
use udo_api::Launch;
use udo_api::abi::GpuArgKind;

use super::error::from;
use super::source::{self, Ports};
use super::{ClDevice, OpenClError};

/// Programs by source and options.
pub(super) type Known = HashMap<(String, String), Weak<Program>>;

/// Returns the kernel of a launch and its program. Kernels with the same source and options share a program.
pub(super) fn kernel(
    device: &ClDevice,
    launch: &Launch,
    ports: Ports<'_>,
) -> Result<(ClKernel, Arc<Program>), OpenClError> {
    let name = &*launch.name;
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Err(OpenClError::BadText { what: "kernel name", text: name.to_owned() });
    }
    let text = source::with_prelude(&launch.source, name, ports);
    let mut known = device.programs.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (text, launch.options.to_string());
    let earlier = known.get(&key).and_then(Weak::upgrade);
    let program = if let Some(program) = earlier {
        program
    } else {
        known.retain(|_, program| program.strong_count() > 0);
        let program = Arc::new(program(device, launch, &key.0)?);
        known.insert(key, Arc::downgrade(&program));
        program
    };
    let names = program.kernel_names().trim_matches('\0');
    if !names.split(';').any(|n| n == name) {
        return Err(OpenClError::NoKernel { kernel: name.to_owned(), found: names.to_owned() });
    }
    let kernel = ClKernel::create(&program, name).map_err(from("clCreateKernel"))?;
    Ok((kernel, program))
}

/// Compiles the source of a launch.
pub(super) fn program(
    device: &ClDevice,
    launch: &Launch,
    text: &str,
) -> Result<Program, OpenClError> {
    let options = format!("{} -cl-kernel-arg-info", launch.options);
    if options.contains('\0') {
        return Err(OpenClError::BadText { what: "build options", text: options });
    }
    let program = Program::create_from_source(&device.context, text);
    let mut program = program.map_err(from("clCreateProgramWithSource"))?;
    let id = device.id.id();
    if let Err(error) = program.build(&[id], &options) {
        let log = program.get_build_log(id).unwrap_or_default();
        let log = source::with_line_names(log.trim_matches(['\0', '\n', ' ']), text);
        if log.is_empty() {
            return Err(from("clBuildProgram")(error));
        }
        let (kernel, device) = (launch.name.to_string(), device.name.clone());
        return Err(OpenClError::Build { kernel, device, log });
    }
    Ok(program)
}

/// Checks each argument of a launch against the kernel's parameter.
pub(super) fn arguments(
    launch: &Launch,
    kernel: &ClKernel,
    ports: Ports<'_>,
) -> Result<Vec<GpuArgKind>, OpenClError> {
    let name = || launch.name.to_string();
    let expected = kernel.num_args().map_err(from("clGetKernelInfo"))?;
    let expected = usize::try_from(expected).unwrap_or(usize::MAX);
    let found = launch.args.len();
    if expected != found {
        return Err(OpenClError::ArgumentCount { kernel: name(), found, expected });
    }
    let checked = (0..).zip(&launch.args).map(|(index, arg)| {
        let (found, expected) = match arg.get() {
            None => ("of an unknown kind".to_owned(), "a port or a number".to_owned()),
            Some(kind) => match misfit(kernel, index, kind, ports) {
                None => return Ok(kind),
                Some(expected) => (source::describe(kind, ports), expected),
            },
        };
        Err(OpenClError::Argument { kernel: name(), index, found, expected })
    });
    checked.collect()
}

/// Describes the kernel's parameter if the argument does not fit it. Drivers need not keep information about
/// parameters; then nothing is checked.
fn misfit(kernel: &ClKernel, index: u32, arg: GpuArgKind, ports: Ports<'_>) -> Option<String> {
    let parameter = kernel.get_arg_type_name(index).ok()?;
    let parameter = parameter.trim();
    let is_local = matches!(arg, GpuArgKind::Local(_));
    let space = kernel.get_arg_address_qualifier(index).ok()?;
    if (space == CL_KERNEL_ARG_ADDRESS_LOCAL) != is_local {
        let of = if is_local { "not local" } else { "local" };
        return Some(format!("{parameter:?}, which is {of}"));
    }
    (!source::fits(parameter, arg, ports)).then(|| format!("{parameter:?}"))
}

/// Returns the work-group size; `None` if the driver chooses it.
pub(super) fn group(
    device: &ClDevice,
    launch: &Launch,
    kernel: &ClKernel,
) -> Result<Option<[usize; 3]>, OpenClError> {
    let (id, global) = (device.id.id(), launch.global_size);
    let divides = |group: [usize; 3]| global.iter().zip(group).all(|(&n, g)| g != 0 && n % g == 0);
    let failed = from("clGetKernelWorkGroupInfo");
    let compiled = kernel.get_compile_work_group_size(id).map_err(&failed)?;
    if let [x, y, z] = compiled[..]
        && ![x, y, z].contains(&0)
    {
        let group = [x, y, z];
        if !divides(group) {
            return Err(OpenClError::Group { kernel: launch.name.to_string(), group, global });
        }
        return Ok(Some(group));
    }
    let most = kernel.get_work_group_size(id).map_err(&failed)?;
    let limits = device.id.max_work_item_sizes().map_err(from("clGetDeviceInfo"))?;
    let taken = |group: [usize; 3]| {
        let items = group.iter().try_fold(1usize, |n, &g| n.checked_mul(g));
        items.is_some_and(|n| n <= most) && group.iter().zip(&limits).all(|(g, limit)| g <= limit)
    };
    Ok(launch.local_size.filter(|&group| divides(group) && taken(group)))
}
