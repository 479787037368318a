# frozen_string_literal: true

require "fileutils"
require "rbconfig"
require "securerandom"
require "socket"
require "timeout"
require_relative "supervisor"

module Support
  # An application as `rails new` makes it, with plock in its Gemfile. It leaves out the parts of
  # Rails that locks do not need.
  #
  #   app = RailsApplication.generate
  #   app.write("config/plock.yml", "test:\n  url: \"memory:\"\n")
  #   output, status = app.runner("puts Plock.store.url")
  class RailsApplication
    ROOT = File.expand_path("../..", __dir__)
    GEMS = %w[railties actionpack puma spring activejob activerecord sidekiq sqlite3].freeze
    GEMFILE = <<~RUBY
      gem "railties"
      gem "actionpack"
      gem "plock", path: #{ROOT.inspect}
      gem "puma", require: false
      gem "spring", require: false
    RUBY
    LEFT_OUT = %w[
      --minimal
      --api
      --skip-active-record
      --skip-bundle
      --skip-git
      --skip-test
      --no-rc
      --quiet
    ].freeze
    DEADLINE = 60.0

    class << self
      # @return [String, nil] the first of the required gems that is not installed
      def missing
        GEMS.find { |name| Gem::Specification.find_all_by_name(name).empty? }
      end

      # Copies an application that is generated only once.
      def generate
        folder = File.join(Supervisor.folder, "shop-#{SecureRandom.hex(4)}")
        FileUtils.cp_r(pattern.folder, folder)
        new(folder)
      end

      private

      def pattern
        @pattern ||= new(File.join(Supervisor.folder, "shop")).tap(&:make)
      end
    end

    attr_reader :folder

    def initialize(folder)
      @folder = folder
      @env = {
        "BUNDLE_GEMFILE" => path("Gemfile"), "BUNDLER_SETUP" => nil, "RUBYOPT" => nil,
        "RUBYLIB" => nil, "RAILS_ENV" => nil, "RACK_ENV" => nil, "PLOCK_URL" => nil,
        "PLOCK_SECRET" => nil, "PLOCK_NAMESPACE" => nil, "DISABLE_SPRING" => nil,
        "SPRING_TMP_PATH" => folder, "XDG_RUNTIME_DIR" => folder, "CI" => nil
      } # if CI is set, Rails loads every class before a test
    end

    def make
      program = "load Gem.bin_path('railties', 'rails')"
      succeed(
        [RbConfig.ruby, "-e", program, "--", "new", folder, *LEFT_OUT],
        env: {
          "BUNDLE_GEMFILE" => nil
        },
        chdir: ROOT
      )
      write(
        "config/application.rb",
        read("config/application.rb").gsub(
          %r{^require "(?!action_controller)\w+/(railtie|engine)"$}, '# \0'
        )
      )
      write("Gemfile", GEMFILE)
      lock_gems
    end

    def path(name) = File.join(folder, name)

    def write(name, text)
      FileUtils.mkdir_p(File.dirname(path(name)))
      File.write(path(name), text)
    end

    def read(name) = File.read(path(name))

    # Adds frameworks of Rails to the application, and gems to the end of its Gemfile.
    def use(*frameworks, gems: [])
      write(
        "config/application.rb",
        read("config/application.rb").gsub(
          %r{^# (?=require "(?:#{frameworks.join("|")})/railtie"$)}, ""
        )
      )
      write("Gemfile", read("Gemfile") + gems.map { |name| "gem #{name.inspect}\n" }.join)
      lock_gems
    end

    # Adds a line to config/application.rb, right after config.load_defaults. The application's
    # own settings follow.
    def configure(line)
      write(
        "config/application.rb",
        read("config/application.rb").sub(/^( +)config\.load_defaults.*\n/) do
          "#{$&}#{$1}#{line}\n"
        end
      )
    end

    # Runs `bin/rails` with these arguments.
    #
    # @return [Array(String, Process::Status)] the output, which includes the errors, and the
    #   status
    def rails(*arguments, env: {}, input: "") =
      execute([RbConfig.ruby, path("bin/rails"), *arguments], env: env, input: input)

    def runner(program, environment: "test", env: {}) =
      rails("runner", "-e", environment, program, env: env)

    def log(environment = "test") = read("log/#{environment}.log")

    # Starts a command, which is killed at the end of the suite if it still runs.
    #
    # @return [Integer] its process id
    def spawn(*command, env: {})
      log = path("log/#{File.basename(command.last)}.out")
      pid =
        Process.spawn(
          @env.merge(env), *command, :chdir => folder, :in => File::NULL, %i[out err] => log
        )
      Supervisor.watch(pid)
      pid
    end

    def execute(command, env: {}, input: "", chdir: folder)
      output = File.join(File.dirname(folder), "out-#{SecureRandom.hex(6)}")
      asked, asks = IO.pipe
      pid =
        Process.spawn(
          @env.merge(env), *command, :chdir => chdir, :in => asked, %i[out err] => output,
          :pgroup => true
        )
      asked.close
      Supervisor.watch(pid)
      asks.write(input)
      asks.close
      status = Timeout.timeout(DEADLINE) { Process.wait2(pid).last }
      [File.read(output), status]
    rescue Timeout::Error
      raise "#{command.join(" ")} did not end:\n#{File.read(output)}"
    ensure
      Process.kill(:KILL, -pid) && Process.wait(pid) if pid && !status
      Supervisor.forget(pid) if pid
    end

    # Removes a file or folder of the application or, without a name, the whole application.
    def remove(name = "") = FileUtils.rm_rf(path(name))

    private

    def lock_gems = succeed([RbConfig.ruby, "-S", "bundle", "lock", "--local"])

    def succeed(command, **options)
      output, status = execute(command, **options)
      raise "#{command.join(" ")} failed:\n#{output}" unless status.success?
    end
  end
end
