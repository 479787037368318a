# frozen_string_literal: true

require "spec_helper"
require "fileutils"
require "open3"
require "rbconfig"
require "tmpdir"

RSpec.describe "extconf.rb", :slow do
  let(:extconf) { File.expand_path("../ext/plock/extconf.rb", __dir__) }
  let(:folder) { discard(Pathname(Dir.mktmpdir("plock-extconf")), :rmtree) }

  # Runs extconf.rb.
  #
  # @return [Array] the output, the status, and the Makefile or nil
  def configure(*arguments, env: {})
    output, status = Open3.capture2e(env, RbConfig.ruby, extconf, *arguments, chdir: folder.to_s)
    makefile = folder.join("Makefile")
    [output, status, (makefile.read if makefile.exist?)]
  end

  # An environment in which pkg-config finds only these libraries, with these versions.
  def libraries(**versions)
    versions.each do |name, version|
      folder.join("#{name}.pc").write("Name: #{name}\nDescription: -\nVersion: #{version}\n")
    end
    { "PKG_CONFIG_LIBDIR" => folder.to_s, "PKG_CONFIG_PATH" => nil }
  end

  context "without the libraries" do
    it "names the packages of each system" do
      output, status, = configure(env: libraries)
      expect(status).not_to be_success
      expect(output).to include("hiredis 0.14 or later and openssl 1.1.1 or later")
        .and match(/apt-get install +libhiredis-dev libssl-dev$/)
        .and match(/dnf install +hiredis-devel openssl-devel$/)
        .and match(/apk add +hiredis-dev openssl-dev$/)
        .and match(/brew install +hiredis openssl@3$/)
    end

    it "names only what is missing or too old" do
      output, status, = configure(env: libraries(hiredis: "0.13.3", openssl: "3.0.0"))
      expect(status).not_to be_success
      expect(output).to match(/apt-get install +libhiredis-dev$/).and match(
        /brew install +hiredis$/
      )
    end

    it "names pkg-config where that is missing" do
      output, status, = configure(env: { "PATH" => folder.to_s })
      expect(status).not_to be_success
      expect(output).to match(/apt-get install +pkg-config libhiredis-dev libssl-dev$/)
        .and match(/apk add +pkgconf hiredis-dev openssl-dev$/)
    end
  end

  it "looks where Homebrew keeps its libraries" do
    real, =
      Open3.capture2(
        ENV.fetch("PKG_CONFIG", "pkg-config"), "--variable=pcfiledir", "hiredis", "openssl"
      )
    folders = real.split.zip(%w[hiredis openssl@3]).map do |source, formula|
      folder.join(formula, "lib").mkpath
      FileUtils.cp_r(source, folder.join(formula, "lib", "pkgconfig"))
      folder.join(formula)
    end
    expect(folders).to all(be_directory)
    folder.join("brew").write("#!/bin/sh\necho #{folder}/$2\n")
    folder.join("brew").chmod(0o755)

    output, status, = configure(env: libraries.merge("PATH" => "#{folder}:#{ENV.fetch("PATH")}"))
    expect(status).to be_success, output
  end

  it "leaves the Linux-only calls out when asked to" do
    _, status, makefile = configure("--disable-linux-calls")
    expect(status).to be_success
    expect(makefile).to match(/^CPPFLAGS = .*-DPLOCK_PORTABLE\b/)

    _, _, makefile = configure
    if RbConfig::CONFIG["host_os"].include?("linux")
      expect(makefile).not_to include("PLOCK_PORTABLE")
    end
  end

  it "makes warnings errors only when asked to" do
    _, _, makefile = configure(env: { "CI" => "true", "PLOCK_WERROR" => nil })
    expect(makefile).not_to match(/-Werror(?!=)/)

    _, _, makefile = configure(env: { "PLOCK_WERROR" => "1" })
    expect(makefile).to match(/-Werror(?!=)/)
  end

  it "has the extension show no symbol but its entry", needs: "nm" do
    library =
      Plock &&
      $LOADED_FEATURES.find { |path| path.end_with?("plock/plock.#{RbConfig::CONFIG["DLEXT"]}") }
    skip "nm -D is for ELF" unless library.end_with?(".so")

    symbols, = Open3.capture2("nm", "-D", "--defined-only", library)
    expect(symbols.lines.map { |line| line.split.last }).to eq ["Init_plock"]
  end
end
