//! Parameters of a kernel, as bytes and as names to compare with the shader's.

/// Defines a `Params` struct of 32-bit fields, laid out as WGSL lays out the same fields, and remembers their places.
macro_rules! params {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($field:ident: $type:ty),+ $(,)? }) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
        $vis struct $name { $($field: $type),+ }

        impl $name {
            /// Field names with byte offsets, and the size in bytes.
            pub(super) const LAYOUT: (&'static [(&'static str, usize)], usize) =
                (&[$((stringify!($field), std::mem::offset_of!($name, $field))),+], size_of::<$name>());
        }
    };
}

pub(super) use params;
