# frozen_string_literal: true

# Configures the extension plock/plock: the binding here and the core below it, compiled into one library.
#
#   --disable-linux-calls   without eventfd and CLOCK_BOOTTIME: compiles what stands in for them elsewhere
#   PLOCK_WERROR=1          warnings are errors (the project's own checks set it; an installation must not fail on one)

require "mkmf"

# What a system's package manager calls the things that pkg-config is asked for.
PACKAGES = {
  "pkg-config" => { apt: "pkg-config", dnf: "pkgconf-pkg-config", apk: "pkgconf", brew: "pkgconf" },
  "hiredis" => { apt: "libhiredis-dev", dnf: "hiredis-devel", apk: "hiredis-dev", brew: "hiredis" },
  "openssl" => { apt: "libssl-dev", dnf: "openssl-devel", apk: "openssl-dev", brew: "openssl@3" }
}.freeze
INSTALLERS = { apt: "apt-get install", dnf: "dnf install", apk: "apk add", brew: "brew install" }.freeze
REQUIREMENTS = { "hiredis" => "0.14", "openssl" => "1.1.1" }.freeze

def missing!(reason, names)
  width = INSTALLERS.values.map(&:length).max
  commands = INSTALLERS.map do |manager, command|
    "  #{command.ljust(width)}  #{names.map { |name| PACKAGES.fetch(name).fetch(manager) }.join(" ")}"
  end
  abort "plock cannot be built: #{reason}. Install what is missing with one of\n\n#{commands.join("\n")}\n\n"
end

# Homebrew keeps OpenSSL apart from the system's, out of pkg-config's sight.
def add_homebrew_folders
  return unless find_executable0("brew")

  folders = %w[openssl@3 hiredis].map { |formula| "#{xpopen(["brew", "--prefix", formula], &:read).chomp}/lib/pkgconfig" }
  ENV["PKG_CONFIG_PATH"] = [ENV.fetch("PKG_CONFIG_PATH", nil), *folders].compact.join(File::PATH_SEPARATOR)
end

def find_libraries
  candidates = [with_config("pkg-config"), ENV.fetch("PKG_CONFIG", nil), RbConfig::CONFIG["PKG_CONFIG"], "pkg-config", "pkgconf"]
  $PKGCONFIG = candidates.find { |name| name && !name.empty? && find_executable0(name) }
  missing!("pkg-config was not found", %w[pkg-config hiredis openssl]) unless $PKGCONFIG

  add_homebrew_folders
  absent = REQUIREMENTS.reject { |name, version| xsystem([$PKGCONFIG, "--exists", "#{name} >= #{version}"]) }
  wanted = absent.map { |name, version| "#{name} #{version} or later" }
  missing!("pkg-config does not find #{wanted.join(" and ")}", absent.keys) if absent.any?

  broken = REQUIREMENTS.keys.reject { |name| pkg_config(name) }
  missing!("no program links with #{broken.join(" and ")} (see mkmf.log)", broken) if broken.any?

  # We say <hiredis/…>: older versions' flags name only the folder of the headers, not the one above it.
  headers = pkg_config("hiredis", "variable=includedir").delete_suffix("/hiredis")
  $INCFLAGS << " -I#{headers}" unless headers == "/usr/include"
end

def linux_calls?
  enable_config("linux-calls", true) &&
    have_func("eventfd", "sys/eventfd.h") &&
    have_const("CLOCK_BOOTTIME", "time.h")
end

def add_sources
  $srcs = Dir["#{$srcdir}/*.c"].sort + Dir["#{$srcdir}/core/src/*/*.c"].sort
  $VPATH.concat(Dir["#{$srcdir}/core/src/*/"].sort.map { |folder| "$(srcdir)/core/src/#{File.basename(folder)}" })
  # Ruby's headers count as the system's, so that our warnings are about our code.
  $INCFLAGS.gsub!(/-I(?=\$\((?:arch_)?hdrdir\))/, "-isystem ")
  $INCFLAGS << " -I$(srcdir)/core/include -I$(srcdir)/core/src"
end

def add_flags
  $warnflags = +"" # Ruby's own are for one compiler, and not every Ruby's CFLAGS refer to them
  $CFLAGS << " -std=c11 -pthread -fvisibility=hidden -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes"
  $CFLAGS << " -Werror" if ENV.key?("PLOCK_WERROR")
  $LDFLAGS << " -pthread"
  $defs << "-D_GNU_SOURCE" if RbConfig::CONFIG["host_os"].include?("linux")
end

find_libraries
$defs << "-DPLOCK_PORTABLE" unless linux_calls?
have_header("ruby/vm.h")
have_func("rb_fiber_scheduler_current", "ruby/fiber/scheduler.h") if have_header("ruby/fiber/scheduler.h")
add_sources
add_flags
$cleanfiles << "plock_scripts.inc"

create_makefile("plock/plock")
