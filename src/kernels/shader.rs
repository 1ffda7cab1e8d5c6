//! The text of a shader.

/// What `shaders/<name>.wgsl` says; in a page without comments (build.rs).
macro_rules! shader {
    ($name:literal) => {
        include_str!(concat!(env!("OUT_DIR"), "/shaders/", $name, ".wgsl"))
    };
}

pub(super) use shader;
