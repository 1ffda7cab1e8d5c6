//! The textures of a plan, in which tensors lie as they lie in memory.

use std::collections::BTreeMap;

use super::program::Textures;
use crate::error::Error;
use crate::gpu::Gpu;
use crate::graph::{Graph, Source, ValueId};
use crate::kernels::texels::{FEWEST_ROWS, ROW_TEXELS, ROW_WORDS, TEXEL_BYTES, WIDTH};

/// Bytes of a row's words.
const ROW_BYTES: u64 = ROW_WORDS as u64 * 4;

/// Textures, and which value lies in which.
#[derive(Debug)]
pub(super) struct Texels {
    textures: Vec<wgpu::Texture>,
    homes: BTreeMap<ValueId, usize>,
    views: Vec<wgpu::TextureView>,
    /// Bound where a kernel's slot stays empty: one to read, one to write.
    absent: [wgpu::TextureView; 2],
}

impl Texels {
    pub(super) async fn new(gpu: &Gpu, textures: &Textures) -> Result<Self, Error> {
        let mut made = Vec::new();
        for &rows in &textures.rows {
            made.push(texture(gpu, rows).await?);
        }
        let view = |texture: &wgpu::Texture| texture.create_view(&wgpu::TextureViewDescriptor::default());
        let absent = [texture(gpu, FEWEST_ROWS).await?, texture(gpu, FEWEST_ROWS).await?];
        let views = made.iter().map(view).collect();
        Ok(Self { views, textures: made, homes: textures.homes.clone(), absent: absent.each_ref().map(view) })
    }

    pub(super) fn view(&self, texture: usize) -> &wgpu::TextureView {
        &self.views[texture]
    }

    /// What is bound where an operand is absent, or the output elsewhere.
    pub(super) fn absent(&self, written: bool) -> &wgpu::TextureView {
        &self.absent[usize::from(written)]
    }

    /// Hands a value's words to the queue, if it lies in a texture.
    pub(super) fn write(&self, queue: &wgpu::Queue, id: ValueId, words: &[f32]) {
        let Some(&texture) = self.homes.get(&id) else {
            return;
        };
        let mut whole = words.to_vec();
        whole.resize(words.len().next_multiple_of(ROW_WORDS), 0.0);
        self.write_rows(queue, texture, &whole);
    }

    fn write_rows(&self, queue: &wgpu::Queue, texture: usize, words: &[f32]) {
        let rows = u32::try_from(words.len() / ROW_WORDS).unwrap_or(u32::MAX);
        let size = wgpu::Extent3d { width: ROW_TEXELS, height: rows, depth_or_array_layers: 1 };
        queue.write_texture(self.textures[texture].as_image_copy(), bytemuck::cast_slice(words), layout(0), size);
    }

    /// Copies an input of `bytes` from its buffer to its texture, if it has one: whole rows, then what is left.
    pub(super) fn stage(&self, encoder: &mut wgpu::CommandEncoder, id: ValueId, buffer: &wgpu::Buffer, bytes: u64) {
        let Some(&texture) = self.homes.get(&id) else {
            return;
        };
        let rows = u32::try_from(bytes / ROW_BYTES).unwrap_or(u32::MAX);
        let left = u32::try_from(bytes % ROW_BYTES / TEXEL_BYTES).unwrap_or(u32::MAX);
        let parts = [(0, ROW_TEXELS, rows), (rows, left, u32::from(left > 0))];
        for (first, width, height) in parts.into_iter().filter(|(_, _, height)| *height > 0) {
            let source = wgpu::TexelCopyBufferInfo { buffer, layout: layout(u64::from(first) * ROW_BYTES) };
            let mut target = self.textures[texture].as_image_copy();
            target.origin.y = first;
            let size = wgpu::Extent3d { width, height, depth_or_array_layers: 1 };
            encoder.copy_buffer_to_texture(source, target, size);
        }
    }

    /// Fills every texture that a run writes with NaN.
    pub(super) fn poison(&self, queue: &wgpu::Queue, graph: &Graph) {
        for (&id, &texture) in &self.homes {
            let computed = matches!(graph.value(id).source, Source::Node(index) if !graph.nodes()[index].is_packing());
            if computed {
                let rows = self.textures[texture].height() as usize;
                self.write_rows(queue, texture, &vec![f32::NAN; rows * ROW_WORDS]);
            }
        }
    }
}

fn layout(offset: u64) -> wgpu::TexelCopyBufferLayout {
    let bytes_per_row = Some(u32::try_from(ROW_BYTES).expect("a row should be short"));
    wgpu::TexelCopyBufferLayout { offset, bytes_per_row, rows_per_image: None }
}

async fn texture(gpu: &Gpu, rows: u32) -> Result<wgpu::Texture, Error> {
    use wgpu::TextureUsages as Usage;
    let label = format!("mha.texels {rows} rows");
    let descriptor = wgpu::TextureDescriptor {
        label: Some(&label),
        size: wgpu::Extent3d { width: WIDTH, height: rows, depth_or_array_layers: 1 },
        mip_level_count: 1,
        sample_count: 1,
        dimension: wgpu::TextureDimension::D2,
        format: wgpu::TextureFormat::Rgba32Float,
        usage: Usage::STORAGE_BINDING | Usage::COPY_DST,
        view_formats: &[],
    };
    gpu.guarded(&label, |device| device.create_texture(&descriptor)).await
}
