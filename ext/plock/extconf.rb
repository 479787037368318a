# frozen_string_literal: true

# Configures the extension plock/plock. It is one library, made of the binding in this folder and
# the core in core/.
#
#   --disable-linux-calls   uses portable fallbacks instead of eventfd and CLOCK_BOOTTIME
#   PLOCK_WERROR=1          turns warnings into errors; only for the project's own checks

require "mkmf"

# For pkg-config and each required library, the name of its package in each package manager.
PACKAGES = {
  "pkg-config" => { apt: "pkg-config", dnf: "pkgconf-pkg-config", apk: "pkgconf", brew: "pkgconf" },
  "hiredis" => { apt: "libhiredis-dev", dnf: "hiredis-devel", apk: "hiredis-dev", brew: "hiredis" },
  "openssl" => { apt: "libssl-dev", dnf: "openssl-devel", apk: "openssl-dev", brew: "openssl@3" }
}.freeze
INSTALLERS = {
  apt: "apt-get install", dnf: "dnf install", apk: "apk add", brew: "brew install"
}.freeze
REQUIREMENTS = { "hiredis" => "0.14", "openssl" => "1.1.1" }.freeze

def missing!(reason, names)
  width = INSTALLERS.values.map(&:length).max
  commands = INSTALLERS.map do |manager, command|
    packages = names.map { |name| PACKAGES.fetch(name).fetch(manager) }
    "  #{command.ljust(width)}  #{packages.join(" ")}"
  end
  abort "plock cannot be built: #{reason}. Install what is missing with one of\n\n" \
        "#{commands.join("\n")}\n\n"
end

# Homebrew installs OpenSSL in a folder of its own, in which pkg-config does not look.
def add_homebrew_folders
  return unless find_executable0("brew")

  folders = %w[openssl@3 hiredis].map do |formula|
    "#{xpopen(["brew", "--prefix", formula], &:read).chomp}/lib/pkgconfig"
  end
  folders.unshift(ENV["PKG_CONFIG_PATH"]) if ENV.key?("PKG_CONFIG_PATH")
  ENV["PKG_CONFIG_PATH"] = folders.join(File::PATH_SEPARATOR)
end

def find_libraries
  candidates = [with_config("pkg-config"), ENV.fetch("PKG_CONFIG", nil),
                RbConfig::CONFIG["PKG_CONFIG"], "pkg-config", "pkgconf"]
  $PKGCONFIG = candidates.find { |name| name && !name.empty? && find_executable0(name) }
  missing!("pkg-config was not found", %w[pkg-config hiredis openssl]) unless $PKGCONFIG

  add_homebrew_folders
  absent = REQUIREMENTS.reject do |name, version|
    xsystem([$PKGCONFIG, "--exists", "#{name} >= #{version}"])
  end
  wanted = absent.map { |name, version| "#{name} #{version} or later" }
  missing!("pkg-config does not find #{wanted.join(" and ")}", absent.keys) if absent.any?

  broken = REQUIREMENTS.keys.reject { |name| pkg_config(name) }
  missing!("no program links with #{broken.join(" and ")} (see mkmf.log)", broken) if broken.any?

  # We include <hiredis/…>, but the flags of older hiredis versions name only the folder hiredis
  # itself.
  headers = pkg_config("hiredis", "variable=includedir").delete_suffix("/hiredis")
  $INCFLAGS << " -I#{headers}" unless headers == "/usr/include"
end

def add_sources
  $srcs = Dir["#{$srcdir}/*.c"].sort + Dir["#{$srcdir}/core/src/*/*.c"].sort
  folders = Dir["#{$srcdir}/core/src/*/"].sort.map { |folder| File.basename(folder) }
  $VPATH.concat(folders.map { |folder| "$(srcdir)/core/src/#{folder}" })
  # Ruby's headers count as system headers, so that warnings are only about our code.
  $INCFLAGS.gsub!(/-I(?=\$\((?:arch_)?hdrdir\))/, "-isystem ")
  $INCFLAGS << " -I$(srcdir)/core/include -I$(srcdir)/core/src"
end

def add_flags
  # Ruby's own warning flags suit only one compiler. Ours are in $CFLAGS, because some Rubies
  # do not pass $warnflags to the compiler.
  $warnflags = +""
  $CFLAGS << " -std=c11 -pthread -fvisibility=hidden"
  $CFLAGS << " -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes"
  $CFLAGS << " -Werror" if ENV.key?("PLOCK_WERROR")
  $LDFLAGS << " -pthread"
  $defs << "-D_GNU_SOURCE" if RbConfig::CONFIG["host_os"].include?("linux")
end

find_libraries
linux_calls = enable_config("linux-calls", true) &&
              have_func("eventfd", "sys/eventfd.h") &&
              have_const("CLOCK_BOOTTIME", "time.h")
$defs << "-DPLOCK_PORTABLE" unless linux_calls
add_sources
add_flags
$cleanfiles << "plock_scripts.inc"

create_makefile("plock/plock")
