//! Draws a terminal as an SVG: coloured output on standard input, the picture on standard output, the title as the
//! argument. `scripts/picture` uses it for the README.

use std::io::{self, Read as _, Write as _};

use anstyle_svg::{Palette, Term};

/// Height of the window's title bar.
const BAR: u32 = 34;

const BACKGROUND: anstyle::RgbColor = anstyle::RgbColor(0x16, 0x1b, 0x22);
const TEXT: anstyle::RgbColor = anstyle::RgbColor(0xd7, 0xde, 0xe6);

/// Black to white, then the bright ones: colours on a dark background that colour-blind people can tell apart.
const COLOURS: [(u8, u8, u8); 16] = [
    (0x16, 0x1b, 0x22),
    (0xff, 0x7b, 0x72),
    (0x56, 0xd3, 0x64),
    (0xe3, 0xb3, 0x41),
    (0x6c, 0xa4, 0xf8),
    (0xd2, 0xa8, 0xff),
    (0x56, 0xd4, 0xdd),
    (0xd7, 0xde, 0xe6),
    (0x6e, 0x76, 0x81),
    (0xff, 0xa1, 0x98),
    (0x7e, 0xe7, 0x87),
    (0xf2, 0xcc, 0x60),
    (0x9e, 0xcb, 0xff),
    (0xe2, 0xc5, 0xff),
    (0xb3, 0xf0, 0xff),
    (0xff, 0xff, 0xff),
];

fn main() -> io::Result<()> {
    let title = std::env::args().nth(1).unwrap_or_default();
    let mut output = String::new();
    io::stdin().read_to_string(&mut output)?;
    io::stdout().write_all(draw(&title, output.trim_end()).as_bytes())
}

/// Draws a window around the text.
fn draw(title: &str, output: &str) -> String {
    let colours = COLOURS.map(|(red, green, blue)| anstyle::RgbColor(red, green, blue));
    let term = Term::new()
        .palette(Palette::from(colours))
        .fg_color(TEXT.into())
        .bg_color(BACKGROUND.into())
        .background(false)
        .min_width_px(0);
    // Browsers ignore the opacity of a part of a text, but not its fill opacity.
    let text = term.render_svg(output).replace("{ opacity: 0.4; }", "{ fill-opacity: 0.6; }");
    let (width, height) = size(&text);
    let text = text.replacen("<svg ", &format!("<svg y=\"{BAR}px\" "), 1);
    let (title, middle, whole) = (escape(title), width / 2, height + BAR);
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {whole}" width="{width}" height="{whole}" role="img" aria-label="{title}">
<title>{title}</title>
<rect width="100%" height="100%" rx="8" fill="#161b22"/>
<path d="M0 {BAR}V8a8 8 0 0 1 8-8H{right}a8 8 0 0 1 8 8V{BAR}z" fill="#21262d"/>
<circle cx="18" cy="17" r="5.5" fill="#6e7681"/><circle cx="36" cy="17" r="5.5" fill="#6e7681"/><circle cx="54" cy="17" r="5.5" fill="#6e7681"/>
<text x="{middle}" y="21" text-anchor="middle" font-family="system-ui, sans-serif" font-size="13" fill="#9da7b1">{title}</text>
{text}</svg>
"##,
        right = width - 8,
    )
}

/// Returns width and height from the first line of the drawing.
fn size(svg: &str) -> (u32, u32) {
    let number = |name: &str| {
        let (_, after) = svg.split_once(&format!(" {name}=\"")).expect("a picture has a size");
        let (number, _) = after.split_once("px").expect("in pixels");
        number.parse().expect("which is a number")
    };
    (number("width"), number("height"))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}
